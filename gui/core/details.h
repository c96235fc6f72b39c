// SPDX-License-Identifier: GPL-3.0-or-later
// Results simulated on demand in the background lane: one point in full, a map over TP and batch limit, a paired
// comparison of two scenarios.
#pragma once

#include <QString>
#include <functional>
#include <optional>
#include <vector>

#include "gui/core/metrics.h"
#include "gui/core/run_files.h"
#include "gui/core/scenario.h"
#include "gui/core/slo_answer.h"
#include "sim/simulate.h"
#include "study/run/run_control.h"

namespace plimsoll::gui {

/// The requests and steps of a point's first replication.
struct PointDetails {
  QString name;
  double load = 0;
  std::int64_t kv_blocks = 0;        // KV blocks per replica
  std::int32_t decode_replicas = 0;  // with pools: these come first, those of the prefill pool follow; 0: one pool
  std::vector<sim::RequestRow> requests;
  std::vector<sim::StepRow> steps;
  std::optional<RunFiles> measured;  // of the same point, if the run that measured it left its files
  QString measured_from;             // the table that states the run, or why its files cannot be read
};
/// Simulates point `index` of the study, or that point with another load (a refined point). Throws InputError.
[[nodiscard]] PointDetails simulate_details(const study::Study& study, std::size_t index, std::optional<double> load,
                                            study::RunControl& control);

/// The difference between a request's measured and simulated latency.
struct RequestDifference {
  double arrival_s = 0;    // in the simulation
  double latency_s = 0;    // measured - simulated
  double simulated_s = 0;  // simulated latency
};
/// Returns the requests that completed in both runs, matched by id, in order of arrival.
[[nodiscard]] std::vector<RequestDifference> request_differences(const PointDetails& details);

/// A value over time: it applies from `at_s` until the next one begins.
struct TimedValue {
  double at_s = 0, value = 0;
};
/// Returns a replica's value at the start of each of its steps, in order of time; 0 from the end of the last step.
[[nodiscard]] std::vector<TimedValue> step_values(const std::vector<sim::StepRow>& steps, std::int32_t replica,
                                                  const std::function<double(const sim::StepRow&)>& value);
/// Returns a - b at every time at which either changes.
[[nodiscard]] std::vector<TimedValue> step_difference(const std::vector<TimedValue>& a,
                                                      const std::vector<TimedValue>& b);

/// A map of TP degrees by batch limits: all at one load, or each at the highest load that it carries within a limit.
struct HeatMap {
  std::vector<std::int64_t> tp, batch;
  double load = 0;  // 0 if each cell has its own load
  struct Cell {
    std::optional<PointRow> row;
    std::optional<SloAnswer> answer = {};  // what the deployment carries within the limits, if that was asked
    QString reason;  // why the cell cannot run; if this and the row are empty, no load is within the limit
  };
  std::vector<Cell> cells;  // row-major: cells[t * batch.size() + b]
};
/// Simulates every TP degree and batch limit at `load`. Stops early if `control` is cancelled.
[[nodiscard]] HeatMap simulate_heat_map(const Scenario& scenario,
                                        const std::shared_ptr<const configs::Catalogue>& catalogue, double load,
                                        study::RunControl& control);
/// Computes for each cell what the curves show for a scenario with its values (slo_answer): the load that it carries
/// within the limit and the study's SLO. Uses the scenario's own loads and refined points in between.
[[nodiscard]] HeatMap simulate_heat_map_within(const Scenario& scenario,
                                               const std::shared_ptr<const configs::Catalogue>& catalogue,
                                               const DrawnLimit& limit, study::RunControl& control);

/// The relative difference B / A - 1 of a metric at one load, over paired replications. Both scenarios see the same
/// requests at the same times, so common variation cancels out.
struct PairedDifference {
  double load = 0, mean = 0;
  std::optional<double> half_width;  // of the 95 % Student t interval; absent with fewer than two replications
  QString curve = {};                // of several; empty: each study has a single one
};
struct StudyPair {
  const study::Study &a, &b;
};
/// Compares points of equal load, with `replications` seeds each, in the order of `a`. If one study has a single curve,
/// it is compared with every curve of the other; otherwise curves are paired by their names. Points that cannot run or
/// have no partner are omitted. Stops early if `control` is cancelled.
[[nodiscard]] std::vector<PairedDifference> paired_differences(const StudyPair& studies, const Metric& metric,
                                                               int replications, study::RunControl& control);

}  // namespace plimsoll::gui

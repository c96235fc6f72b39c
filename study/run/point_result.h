// SPDX-License-Identifier: Apache-2.0
// One point of a study's curve: which point it is, what it gave, and what it cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "load/load_kind.h"
#include "sched/metrics_collector.h"
#include "sched/run_result.h"
#include "study/file/cell.h"
#include "study/run/slo_text.h"

namespace plimsoll::study {

/// The columns that say which point this is.
struct PointLabels {
  std::string source = "simulated";  // simulated, measured, published
  std::string model, hardware, engine, dtype;
  std::int32_t tp = 1, replicas = 1;  // 0: not known
  std::string policy, load_kind;
  double load_value = 0;
  // The spread of a gamma load's gaps; what a client of a closed loop waits before its next request.
  std::optional<double> arrival_cv, turnaround_s;
  /// Of load_kind: how requests come and what load_value counts.
  [[nodiscard]] const load::LoadKind& load() const { return load::load_kind_named(load_kind); }
};

/// A point of a sweep with its labels and, unless it cannot exist, its metrics.
struct PointResult {
  std::size_t index = 0;    // place in the sweep, from 0
  std::vector<Cell> swept;  // one value per swept key
  PointLabels labels;
  std::optional<sched::PointMetrics> metrics;  // none: the point cannot exist
  std::string infeasible;                      // the reason when there are no metrics
  std::vector<SloFigure> slo;             // what the SLO limits and what was found; empty: no SLO, or nothing measured
  std::optional<std::string> missed_slo;  // which bounds it misses, empty: none; none: no SLO, or nothing measured
  std::string starved;                 // which setting keeps prompts out of steps, and the key to change; empty: none
  std::string extrapolates;            // why the figures are estimates; empty: calibrated
  std::int32_t instances = 1;          // at most at once
  std::optional<double> usd_per_hour;  // of these
  std::int64_t gpus = 0;  // that the replicas use, at most at once; 0: there are none, or this machine's cores
  std::int32_t gpus_per_instance = 1;
  std::vector<sched::FleetRow> fleet;  // replicas that come and go, simulated here: how the fleet changed; else empty
};

/// "7 of the 8 GPUs of p5.48xlarge are not used …"; empty: all are.
[[nodiscard]] std::string unused_gpus(const PointResult& point);

/// What the run used, and what it cost an hour in the mean: less than `usd_per_hour` where instances come and go.
[[nodiscard]] double instance_hours(const PointResult& point);
[[nodiscard]] std::optional<double> mean_usd_per_hour(const PointResult& point);

/// Adds a reason why the point's figures are estimates.
void add_extrapolation(PointResult& point, const std::string& why);
/// What a million output tokens cost at this point; nullopt without a price or without output.
[[nodiscard]] std::optional<double> usd_per_million_output_tokens(const PointResult& point);

/// true, false, or blank where the run was too short to tell.
[[nodiscard]] Cell stable_cell(const sched::SteadyState& steady);
/// For a reader: why a point is not stable, or how long a run would tell; empty where it is stable.
[[nodiscard]] std::string steady_text(const sched::SteadyState& steady);

/// Names of the columns of points.csv: swept keys, then the contract of docs/metrics.md.
[[nodiscard]] std::vector<std::string> point_columns(const std::vector<std::string>& swept_keys);
/// The cells of one row, in that order.
[[nodiscard]] std::vector<Cell> point_row(const PointResult& point);

/// Columns and rows of a whole result as CSV text, or as a JSON array of objects.
[[nodiscard]] std::string points_csv(const std::vector<std::string>& swept_keys,
                                     const std::vector<PointResult>& points);
[[nodiscard]] std::string points_json(const std::vector<std::string>& swept_keys,
                                      const std::vector<PointResult>& points);
/// One object with every column: the body of a `point` line of --progress jsonl, without its braces.
[[nodiscard]] std::string json_members(const std::vector<std::string>& columns, const std::vector<Cell>& cells);

}  // namespace plimsoll::study

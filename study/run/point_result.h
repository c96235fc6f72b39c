// SPDX-License-Identifier: Apache-2.0
// One point of a study's curve: its labels, its metrics and its cost.
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

/// The columns that identify a point.
struct PointLabels {
  std::string source = "simulated";  // simulated, measured, published
  std::string model, hardware, engine, dtype;
  std::int32_t tp = 1, replicas = 1;  // 0: not known
  std::string policy, load_kind;
  double load_value = 0;
  // The cv of a gamma load's gaps, and the time that a closed-loop client waits before its next request.
  std::optional<double> arrival_cv, turnaround_s;
  /// The kind of load: how requests arrive and what load_value counts.
  [[nodiscard]] const load::LoadKind& load() const { return load::load_kind_named(load_kind); }
};

/// A point of a sweep with its labels and its metrics, or with the reason why it is impossible.
struct PointResult {
  std::size_t index = 0;    // index in the sweep, from 0
  std::vector<Cell> swept;  // one value per swept key
  PointLabels labels;
  std::optional<sched::PointMetrics> metrics;  // none: the point is impossible
  std::string infeasible;                      // the reason, if there are no metrics
  std::vector<SloFigure> slo;             // each limit of the SLO with its value; empty: no SLO, or nothing measured
  std::optional<std::string> missed_slo;  // bounds that are missed, empty: none; nullopt: no SLO, or nothing measured
  std::string starved;         // the setting that keeps prompts out of steps, and the key to change; empty: none
  std::string extrapolates;    // why the figures are estimates; empty: calibrated
  std::int32_t instances = 1;  // the maximum at any time
  std::optional<double> usd_per_hour;  // cost of these instances
  std::int64_t gpus = 0;  // GPUs in use by the replicas, at most at any time; 0: no GPUs, or the cores of this machine
  std::int32_t gpus_per_instance = 1;
  std::string pools;                           // with two pools: "prefill 2 + decode 6"; empty: one pool
  std::int32_t prefill_replicas = 0;           // of labels.replicas
  std::int32_t prefill_instances = 0;          // of instances
  std::optional<double> prefill_usd_per_hour;  // of usd_per_hour
  std::vector<sched::FleetRow> fleet;  // changes of a fleet whose replicas come and go, if simulated here; else empty
};

/// Returns for example "7 of the 8 GPUs of p5.48xlarge are not used …"; empty if all are used.
[[nodiscard]] std::string unused_gpus(const PointResult& point);

/// Return the instance hours of the run, and its mean cost per hour, which is below `usd_per_hour` if instances come
/// and go.
[[nodiscard]] double instance_hours(const PointResult& point);
[[nodiscard]] std::optional<double> mean_usd_per_hour(const PointResult& point);

/// Adds a reason why the point's figures are estimates.
void add_extrapolation(PointResult& point, const std::string& why);
/// Returns the cost of a million output tokens at this point; nullopt without a price or without output.
[[nodiscard]] std::optional<double> usd_per_million_output_tokens(const PointResult& point);

/// Returns true, false, or a blank cell if the run was too short to tell.
[[nodiscard]] Cell stable_cell(const sched::SteadyState& steady);
/// Explains why a point is not stable, or how long a run would have to be to tell; empty if it is stable.
[[nodiscard]] std::string steady_text(const sched::SteadyState& steady);

/// Whether a table has the columns of points with two pools (docs/pools.md), at its end.
enum class PoolColumns : unsigned char { no, yes };
/// Returns whether any of the points has two pools.
[[nodiscard]] PoolColumns pool_columns(const std::vector<PointResult>& points);
/// Returns whether these are among the columns.
[[nodiscard]] PoolColumns pools_in(const std::vector<std::string>& columns);
/// Returns the columns of points.csv: swept keys, then those defined in docs/metrics.md.
[[nodiscard]] std::vector<std::string> point_columns(const std::vector<std::string>& swept_keys,
                                                     PoolColumns pools = PoolColumns::no);
/// Returns the cells of one row, in the order of the columns.
[[nodiscard]] std::vector<Cell> point_row(const PointResult& point, PoolColumns pools = PoolColumns::no);

/// Formats the columns and rows of a whole result as CSV, or as a JSON array of objects.
[[nodiscard]] std::string points_csv(const std::vector<std::string>& swept_keys,
                                     const std::vector<PointResult>& points);
[[nodiscard]] std::string points_json(const std::vector<std::string>& swept_keys,
                                      const std::vector<PointResult>& points);
/// Formats one object with every column, without its braces: the body of a `point` line of --progress jsonl.
[[nodiscard]] std::string json_members(const std::vector<std::string>& columns, const std::vector<Cell>& cells);

}  // namespace plimsoll::study

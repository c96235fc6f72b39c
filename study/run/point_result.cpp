// SPDX-License-Identifier: Apache-2.0
#include "study/run/point_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "model/error.h"

namespace plimsoll::study {
namespace {

// These columns are a contract: new ones are only added at the end.
constexpr std::array<std::string_view, 90> kColumns = {"source",
                                                       "model",
                                                       "hardware",
                                                       "engine",
                                                       "dtype",
                                                       "tp",
                                                       "replicas",
                                                       "policy",
                                                       "load_kind",
                                                       "load_value",
                                                       "input_tokens_mean",
                                                       "output_tokens_mean",
                                                       "requests_completed",
                                                       "requests_rejected",
                                                       "requests_timed_out",
                                                       "preemptions",
                                                       "duration_s",
                                                       "requests_per_s",
                                                       "output_tokens_per_s",
                                                       "total_tokens_per_s",
                                                       "latency_mean_s",
                                                       "latency_p50_s",
                                                       "latency_p90_s",
                                                       "latency_p95_s",
                                                       "latency_p99_s",
                                                       "ttft_mean_s",
                                                       "ttft_p50_s",
                                                       "ttft_p90_s",
                                                       "ttft_p99_s",
                                                       "tpot_mean_s",
                                                       "tpot_p50_s",
                                                       "tpot_p90_s",
                                                       "tpot_p99_s",
                                                       "itl_mean_s",
                                                       "itl_p50_s",
                                                       "itl_p99_s",
                                                       "latency_per_token_p90_s",
                                                       "latency_per_token_mean_s",
                                                       "ttft_p95_s",
                                                       "itl_p95_s",
                                                       "batch_mean",
                                                       "kv_used_mean",
                                                       "kv_used_peak",
                                                       "kv_wasted_mean",
                                                       "slo_attainment",
                                                       "stable",
                                                       "usd_per_million_output_tokens",
                                                       "extrapolates",
                                                       "latency_mean_s_lo",
                                                       "latency_mean_s_hi",
                                                       "ttft_mean_s_lo",
                                                       "ttft_mean_s_hi",
                                                       "tpot_mean_s_lo",
                                                       "tpot_mean_s_hi",
                                                       "latency_per_token_p90_s_lo",
                                                       "latency_per_token_p90_s_hi",
                                                       "output_tokens_per_s_lo",
                                                       "output_tokens_per_s_hi",
                                                       "time_weights_s",
                                                       "time_kv_s",
                                                       "time_compute_s",
                                                       "time_allreduce_s",
                                                       "time_host_s",
                                                       "time_queue_s",
                                                       "time_preempt_s",
                                                       "time_other_s",
                                                       "latency_mean_ci95_s",
                                                       "output_tokens_per_s_ci95",
                                                       "in_system_mean",
                                                       "queue_mean",
                                                       "kv_internal_mean",
                                                       "kv_reserved_unused_mean",
                                                       "kv_external_mean",
                                                       "kv_last_block_mean",
                                                       "instances",
                                                       "usd_per_hour",
                                                       "instance_hours",
                                                       "usd",
                                                       "replicas_mean",
                                                       "replica_starts",
                                                       "replica_failures",
                                                       "stable_reason",
                                                       "requests_needed",
                                                       "slo_met",
                                                       "ttft_first_wave_mean_s",
                                                       "ttft_steady_mean_s",
                                                       "ttft_steady_p99_s",
                                                       "latency_steady_mean_s",
                                                       "arrival_cv",
                                                       "turnaround_s"};

// With pools for prefill and decode these follow.
constexpr std::array<std::string_view, 13> kPoolColumns = {"pool",
                                                           "transfer_s_mean",
                                                           "transfer_s_p99",
                                                           "staging_blocks_peak",
                                                           "local_prefill_share",
                                                           "time_transfer_s",
                                                           "time_queue_prefill_s",
                                                           "time_prefill_s",
                                                           "time_queue_decode_s",
                                                           "time_decode_s",
                                                           "prefill_busy_mean",
                                                           "decode_busy_mean",
                                                           "prefill_replicas"};

using Quantiles = sched::PointMetrics::Quantiles;

/// Appends cells in column order.
class PointCells {
 public:
  explicit PointCells(std::vector<Cell> cells) : cells_(std::move(cells)) {}
  PointCells& text(const std::string& value) {
    cells_.emplace_back(value);
    return *this;
  }
  PointCells& count(std::int64_t value) {
    cells_.emplace_back(value);
    return *this;
  }
  PointCells& number(std::optional<double> value) {
    cells_.push_back(number_cell(value));
    return *this;
  }
  PointCells& flag(bool value) {
    cells_.emplace_back(value);
    return *this;
  }
  PointCells& cell(Cell value) {
    cells_.push_back(std::move(value));
    return *this;
  }
  PointCells& blanks(std::size_t n) {
    cells_.resize(cells_.size() + n);
    return *this;
  }
  [[nodiscard]] std::vector<Cell> take() { return std::move(cells_); }

 private:
  std::vector<Cell> cells_;
};

void append_labels(PointCells& row, const PointLabels& labels) {
  row.text(labels.source).text(labels.model).text(labels.hardware).text(labels.engine).text(labels.dtype);
  if (labels.tp > 0)
    row.count(labels.tp).count(labels.replicas);
  else
    row.blanks(2);
  row.text(labels.policy).text(labels.load_kind);
  if (labels.load_kind.empty() || labels.load().load_class == load::LoadClass::script) {
    row.blanks(1);
  } else {
    row.number(labels.load_value);
  }
}

void append_counts(PointCells& row, const sched::PointMetrics& m) {
  row.number(m.input_tokens_mean).number(m.output_tokens_mean);
  row.count(m.requests_completed).count(m.requests_rejected).count(m.requests_timed_out).count(m.preemptions);
  row.number(m.duration_s).number(m.requests_per_s).number(m.output_tokens_per_s).number(m.total_tokens_per_s);
}

// A growing queue has no latency: the measured latency of an unstable open-loop run depends only on its length.
void append_latencies(PointCells& row, const sched::PointMetrics& m, bool meaningful) {
  const Quantiles none;
  const Quantiles& latency = meaningful ? m.latency : none;
  const Quantiles& ttft = meaningful ? m.ttft : none;
  const Quantiles& per_token = meaningful ? m.latency_per_token : none;
  row.number(latency.mean).number(latency.p50).number(latency.p90).number(latency.p95).number(latency.p99);
  row.number(ttft.mean).number(ttft.p50).number(ttft.p90).number(ttft.p99);
  row.number(m.tpot.mean).number(m.tpot.p50).number(m.tpot.p90).number(m.tpot.p99);
  row.number(m.itl.mean).number(m.itl.p50).number(m.itl.p99);
  row.number(per_token.p90).number(per_token.mean).number(ttft.p95).number(m.itl.p95);
}

void append_bands(PointCells& row, const sched::PointMetrics& m, bool meaningful) {
  const auto band = [&row](const sched::PointMetrics::Band& b) { row.number(b.low).number(b.high); };
  const sched::PointMetrics::Band none;
  band(meaningful ? m.latency_mean_band : none);
  band(meaningful ? m.ttft_mean_band : none);
  band(m.tpot_mean_band);
  band(meaningful ? m.latency_per_token_p90_band : none);
  band(m.output_tokens_per_s_band);
}

void append_times(PointCells& row, const sched::PointMetrics& m, bool meaningful) {
  if (!meaningful || m.requests_completed == 0) {
    row.blanks(8);
    return;
  }
  row.number(m.time_weights_s).number(m.time_kv_s).number(m.time_compute_s).number(m.time_allreduce_s);
  row.number(m.time_host_s).number(m.time_queue_s).number(m.time_preempt_s).number(m.time_other_s);
}

void append_use(PointCells& row, const PointResult& point) {
  const sched::PointMetrics& m = *point.metrics;
  const double hours = instance_hours(point);
  row.number(hours);
  row.number(point.usd_per_hour ? std::optional(*point.usd_per_hour / point.instances * hours) : std::nullopt);
  row.number(m.replica_s && m.duration_s > 0 ? *m.replica_s / m.duration_s : point.labels.replicas);
  row.number(m.replica_starts).number(m.replica_failures);
}

void append_pools(PointCells& row, const PointResult& point, bool meaningful) {
  if (!point.metrics->pools) {
    row.blanks(kPoolColumns.size());
    return;
  }
  const sched::PoolMetrics& p = *point.metrics->pools;
  row.text(point.pools).number(p.transfer_mean).number(p.transfer_p99).count(p.staging_blocks_peak);
  row.number(p.local_prefill_share);
  if (meaningful && point.metrics->requests_completed > 0) {
    row.number(p.time_transfer).number(p.time_queue_prefill).number(p.time_prefill);
    row.number(p.time_queue_decode).number(p.time_decode);
  } else {
    row.blanks(5);
  }
  row.number(p.prefill_busy).number(p.decode_busy).count(point.prefill_replicas);
}

}  // namespace

PoolColumns pool_columns(const std::vector<PointResult>& points) {
  const bool any = std::any_of(points.begin(), points.end(), [](const PointResult& p) { return !p.pools.empty(); });
  return any ? PoolColumns::yes : PoolColumns::no;
}

PoolColumns pools_in(const std::vector<std::string>& columns) {
  return !columns.empty() && columns.back() == kPoolColumns.back() ? PoolColumns::yes : PoolColumns::no;
}

std::string unused_gpus(const PointResult& point) {
  const std::int64_t paid = std::int64_t{point.instances} * point.gpus_per_instance, used = point.gpus;
  if (used == 0 || used >= paid) return {};
  return fmt::format(
      "{} of the {} GPUs of {} {} not used{}: more replicas or a larger tp would use all", paid - used, paid,
      point.instances == 1 ? point.labels.hardware : fmt::format("{} x {}", point.instances, point.labels.hardware),
      paid - used == 1 ? "is" : "are", point.usd_per_hour ? ", but paid for" : "");
}

double instance_hours(const PointResult& point) {
  if (!point.metrics) return 0;
  return point.metrics->instance_s.value_or(point.instances * point.metrics->duration_s) / 3600.0;
}

std::optional<double> mean_usd_per_hour(const PointResult& point) {
  const bool comes_and_goes = point.metrics && point.metrics->instance_s && point.metrics->duration_s > 0;
  if (!comes_and_goes || !point.usd_per_hour) return point.usd_per_hour;
  const sched::PointMetrics& m = *point.metrics;
  if (!m.pools || !m.pools->prefill_instance_s || !point.prefill_usd_per_hour)
    return *point.usd_per_hour / point.instances * *m.instance_s / m.duration_s;
  // The instances of the two pools may differ in price.
  const double prefill_s = *m.pools->prefill_instance_s;
  return (*point.prefill_usd_per_hour / point.prefill_instances * prefill_s +
          (*point.usd_per_hour - *point.prefill_usd_per_hour) / (point.instances - point.prefill_instances) *
              (*m.instance_s - prefill_s)) /
         m.duration_s;
}

void add_extrapolation(PointResult& point, const std::string& why) {
  point.extrapolates += (point.extrapolates.empty() ? "" : "; ") + why;
}

std::optional<double> usd_per_million_output_tokens(const PointResult& point) {
  if (!point.metrics) return {};
  const double rate = point.metrics->output_tokens_per_s;
  const std::optional<double> usd = mean_usd_per_hour(point);
  if (!usd || !(rate > 0)) return {};
  return *usd / 3600.0 / rate * 1e6;
}

Cell stable_cell(const sched::SteadyState& steady) {
  return steady.verdict == sched::Steadiness::too_short ? Cell() : Cell(steady.verdict == sched::Steadiness::stable);
}

std::string steady_text(const sched::SteadyState& steady) {
  switch (steady.verdict) {
    case sched::Steadiness::stable: return {};
    case sched::Steadiness::unstable: return "unstable: " + steady.reason;
    case sched::Steadiness::too_short:
      return fmt::format("run too short to tell whether it keeps up: {}; {} requests would be enough", steady.reason,
                         steady.requests_needed);
  }
  return {};
}

std::vector<std::string> point_columns(const std::vector<std::string>& swept_keys, PoolColumns pools) {
  std::vector<std::string> columns = swept_keys;
  columns.insert(columns.end(), kColumns.begin(), kColumns.end());
  if (pools == PoolColumns::yes) columns.insert(columns.end(), kPoolColumns.begin(), kPoolColumns.end());
  return columns;
}

std::vector<Cell> point_row(const PointResult& point, PoolColumns pools) {
  const std::size_t width =
      point.swept.size() + kColumns.size() + (pools == PoolColumns::yes ? kPoolColumns.size() : 0);
  PointCells row(point.swept);
  append_labels(row, point.labels);
  if (!point.metrics) {
    std::vector<Cell> cells = row.take();
    cells.resize(width);
    return cells;
  }
  const sched::PointMetrics& m = *point.metrics;
  const bool meaningful = !m.steady.grows;
  append_counts(row, m);
  append_latencies(row, m, meaningful);
  row.number(m.batch_mean).number(m.kv_used_mean).number(m.kv_used_peak).number(m.kv_wasted_mean);
  row.number(meaningful ? m.slo_attainment : std::nullopt)
      .cell(stable_cell(m.steady))
      .number(usd_per_million_output_tokens(point));
  row.flag(!point.extrapolates.empty());
  append_bands(row, m, meaningful);
  append_times(row, m, meaningful);
  row.number(meaningful ? m.latency_mean_ci95_s : std::nullopt).number(m.output_tokens_per_s_ci95);
  row.number(m.in_system_mean).number(m.queue_mean);
  row.number(m.kv_internal_mean).number(m.kv_reserved_unused_mean).number(m.kv_external_mean);
  row.number(m.kv_last_block_mean).count(point.instances).number(mean_usd_per_hour(point));
  append_use(row, point);
  row.cell(m.steady.reason.empty() ? Cell() : Cell(m.steady.reason));
  row.cell(m.steady.requests_needed > 0 ? Cell(m.steady.requests_needed) : Cell());
  const bool unknown =
      !point.missed_slo || (point.missed_slo->empty() && m.steady.verdict == sched::Steadiness::too_short);
  row.cell(unknown ? Cell() : Cell(point.missed_slo->empty()));
  row.number(m.ttft_first_wave_mean).number(m.ttft_steady_mean).number(m.ttft_steady_p99).number(m.latency_steady_mean);
  row.number(point.labels.arrival_cv).number(point.labels.turnaround_s);
  if (pools == PoolColumns::yes) append_pools(row, point, meaningful);
  std::vector<Cell> cells = row.take();
  PLIMSOLL_CHECK(cells.size() == width, "a row has a cell for each column");
  return cells;
}

std::string points_csv(const std::vector<std::string>& swept_keys, const std::vector<PointResult>& points) {
  const PoolColumns pools = pool_columns(points);
  std::string text = csv_header(point_columns(swept_keys, pools));
  for (const PointResult& point : points) text += csv_line(point_row(point, pools));
  return text;
}

std::string json_members(const std::vector<std::string>& columns, const std::vector<Cell>& cells) {
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) text += ',';
    text += json_quoted(columns[i]) + ':' + json_text(cells[i]);
  }
  return text;
}

std::string points_json(const std::vector<std::string>& swept_keys, const std::vector<PointResult>& points) {
  const PoolColumns pools = pool_columns(points);
  const std::vector<std::string> columns = point_columns(swept_keys, pools);
  std::string text = "[";
  for (const PointResult& point : points) {
    text += point.index == points.front().index ? "\n " : ",\n ";
    text += '{' + json_members(columns, point_row(point, pools)) + '}';
  }
  return text + "\n]\n";
}

}  // namespace plimsoll::study

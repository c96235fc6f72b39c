// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

constexpr double kMs = 1000;

constexpr const char* kLatency = "Latency is the end of a request minus the time its client meant to send it.";
constexpr const char* kTtft = "Time to first token: first token minus intended send time.";
constexpr const char* kTpot =
    "Time per output token after the first: (latency - TTFT) / (output tokens - 1); none for one token.";
constexpr const char* kItl =
    "Inter-token latency: the time between two tokens of a request, over all gaps of all requests.";
constexpr const char* kPerToken = "Latency / output tokens, of each request.";

constexpr const char* kTransfer = "The part of a KV transfer between the pools that the prefill does not hide.";

constexpr auto kMetrics = std::to_array<Metric>({
    {"output_tokens_per_s", "Throughput", "output tokens/s", 1, "throughput",
     "Output tokens of completed requests / measured window.", false},
    {"tokens_per_s_per_gpu", "Throughput per GPU", "output tokens/s/GPU", 1, "throughput",
     "Output tokens/s divided by the accelerators that the replicas use (TP x PP x replicas).", false},
    {"tokens_per_s_per_usd_per_hour", "Throughput per USD/h", "output tokens/s per USD/h", 1, "throughput",
     "Output tokens/s divided by the price of the whole instances.", false},
    {"total_tokens_per_s", "Throughput with prompts", "tokens/s", 1, "throughput",
     "Input and output tokens of completed requests / measured window.", false},
    {"requests_per_s", "Request rate", "requests/s", 1, "throughput", "Completed requests / measured window.", false},
    {"requests_per_s_per_gpu", "Request rate per GPU", "requests/s/GPU", 1, "throughput",
     "Completed requests / measured window, divided by the accelerators that the replicas use.", false},
    {"requests_per_s_per_usd_per_hour", "Request rate per USD/h", "requests/s per USD/h", 1, "throughput",
     "Completed requests / measured window, divided by the price of the whole instances.", false},
    {"tokens_per_s_per_user", "Interactivity", "output tokens/s/user", 1, "throughput",
     "1 / mean TPOT: how fast one user sees tokens appear.", false},
    {"load_value", "Load", "users or requests/s", 1, "load",
     "What the sweep varies: the clients of a closed loop, or the arrival rate of an open one.", true},
    {"load_per_gpu", "Load per GPU", "users or requests/s per GPU", 1, "load",
     "The load divided by the accelerators that the replicas use.", true},
    {"load_per_usd_per_hour", "Load per USD/h", "users or requests/s per USD/h", 1, "load",
     "The load divided by the price of the whole instances.", true},
    {"batch_mean", "Mean batch", "sequences", 1, "load", "Sequences in a step, mean over the steps' time.", false},
    {"in_system_mean", "Requests in the system", "requests", 1, "load",
     "Logical requests sent and not ended, mean over time.", true},
    {"queue_mean", "Requests waiting", "requests", 1, "load", "Logical requests not yet in service, mean over time.",
     true},
    {"latency_per_token_p90_s", "p90 latency per output token", "ms", kMs, "latency", kPerToken, true},
    {"latency_per_token_mean_s", "Mean latency per output token", "ms", kMs, "latency", kPerToken, true},
    {"latency_mean_s", "Mean latency", "s", 1, "latency", kLatency, true},
    {"latency_p50_s", "p50 latency", "s", 1, "latency", kLatency, true},
    {"latency_p90_s", "p90 latency", "s", 1, "latency", kLatency, true},
    {"latency_p95_s", "p95 latency", "s", 1, "latency", kLatency, true},
    {"latency_p99_s", "p99 latency", "s", 1, "latency", kLatency, true},
    {"ttft_mean_s", "Mean TTFT", "ms", kMs, "latency", kTtft, true},
    {"ttft_p50_s", "p50 TTFT", "ms", kMs, "latency", kTtft, true},
    {"ttft_p90_s", "p90 TTFT", "ms", kMs, "latency", kTtft, true},
    {"ttft_p95_s", "p95 TTFT", "ms", kMs, "latency", kTtft, true},
    {"ttft_p99_s", "p99 TTFT", "ms", kMs, "latency", kTtft, true},
    {"tpot_mean_s", "Mean TPOT", "ms", kMs, "latency", kTpot, true},
    {"tpot_p50_s", "p50 TPOT", "ms", kMs, "latency", kTpot, true},
    {"tpot_p90_s", "p90 TPOT", "ms", kMs, "latency", kTpot, true},
    {"tpot_p99_s", "p99 TPOT", "ms", kMs, "latency", kTpot, true},
    {"itl_mean_s", "Mean ITL", "ms", kMs, "latency", kItl, true},
    {"itl_p50_s", "p50 ITL", "ms", kMs, "latency", kItl, true},
    {"itl_p95_s", "p95 ITL", "ms", kMs, "latency", kItl, true},
    {"itl_p99_s", "p99 ITL", "ms", kMs, "latency", kItl, true},
    {"slo_attainment", "SLO attainment", "%", 100, "latency",
     "Fraction of logical requests that completed within every limit on latency, TTFT, TPOT and latency per token.",
     false},
    {"kv_used_mean", "KV pool used", "%", 100, "memory",
     "Tokens whose KV is stored / capacity of the pool, mean over time.", false},
    {"kv_used_peak", "KV pool used at peak", "%", 100, "memory",
     "Peak of tokens whose KV is stored / capacity of the "
     "pool, of the fullest replica.",
     false},
    {"kv_wasted_mean", "KV pool wasted", "%", 100, "memory",
     "(Capacity of held blocks - tokens stored) / capacity of the pool.", true},
    {"preemptions", "Preemptions", "", 1, "memory",
     "Requests preempted from the running batch, summed over all "
     "replicas.",
     true},
    {"transfer_s_mean", "Mean KV transfer", "ms", kMs, "pools", kTransfer, true},
    {"transfer_s_p99", "p99 KV transfer", "ms", kMs, "pools", kTransfer, true},
    {"prefill_busy_mean", "Busy prefill replicas", "replicas", 1, "pools",
     "Replicas of the prefill pool that run a step, mean over time.", false},
    {"decode_busy_mean", "Busy decode replicas", "replicas", 1, "pools",
     "Replicas of the decode pool that run a step, mean over time.", false},
    {"usd_per_million_output_tokens", "Cost", "USD per million output tokens", 1, "cost",
     "USD an hour / 3600 / output tokens/s x 10^6; counts whole instances.", true},
    {"usd_per_hour", "Price", "USD/h", 1, "cost", "Price of the whole instances that the deployment uses.", true},
});

std::optional<double> number_of(const study::Cell& cell) {
  if (const auto* number = std::get_if<double>(&cell)) return *number;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*whole);
  return {};
}

std::optional<double> column(const PointRow& row, std::string_view name) {
  const auto index = column_index(name);
  return index ? number_of(row.cells[*index]) : std::nullopt;
}

/// A column and its values by GPU and by USD/h.
struct MetricFamily {
  const char *total, *per_gpu, *per_price;
};
constexpr auto kFamilies = std::to_array<MetricFamily>({
    {"output_tokens_per_s", "tokens_per_s_per_gpu", "tokens_per_s_per_usd_per_hour"},
    {"requests_per_s", "requests_per_s_per_gpu", "requests_per_s_per_usd_per_hour"},
    {"load_value", "load_per_gpu", "load_per_usd_per_hour"},
});

// Some metrics are computed from several columns; all others are columns of the row.
std::optional<double> raw_value(const PointRow& row, const Metric& metric) {
  const std::string_view id = metric.id;
  for (const MetricFamily& family : kFamilies) {
    const bool per_gpu = id == family.per_gpu, per_price = id == family.per_price;
    if (!per_gpu && !per_price) continue;
    const auto total = column(row, family.total);
    const auto divisor = per_gpu ? std::optional<double>(row.gpus) : column(row, "usd_per_hour");
    return total && divisor && *divisor > 0 ? std::optional(*total / *divisor) : std::nullopt;
  }
  if (id == "tokens_per_s_per_user") {
    const auto tpot = column(row, "tpot_mean_s");
    return tpot && *tpot > 0 ? std::optional(1 / *tpot) : std::nullopt;
  }
  return column(row, id);
}

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

const Metric* find_metric(std::string_view id) {
  const auto* const found = std::find_if(kMetrics.begin(), kMetrics.end(), [&](const Metric& m) { return id == m.id; });
  return found == kMetrics.end() ? nullptr : found;
}

const Metric* on_basis(const Metric& metric, Basis basis) {
  const std::string_view id = metric.id;
  for (const MetricFamily& family : kFamilies) {
    if (id != family.total && id != family.per_gpu && id != family.per_price) continue;
    return find_metric(basis == Basis::total     ? family.total
                       : basis == Basis::per_gpu ? family.per_gpu
                                                 : family.per_price);
  }
  return nullptr;
}

std::optional<Basis> basis_of(const Metric& metric) {
  const std::string_view id = metric.id;
  for (const MetricFamily& family : kFamilies) {
    if (id == family.total) return Basis::total;
    if (id == family.per_gpu) return Basis::per_gpu;
    if (id == family.per_price) return Basis::per_price;
  }
  return {};
}

QString axis_title(const Metric& metric) {
  return *metric.unit == '\0' ? qs(metric.label) : QStringLiteral("%1 (%2)").arg(qs(metric.label), qs(metric.unit));
}

const std::vector<std::string>& row_columns() {
  static const std::vector<std::string> columns = study::point_columns({}, study::PoolColumns::yes);
  return columns;
}

std::optional<std::size_t> column_index(std::string_view name) {
  static const auto places = [] {
    std::unordered_map<std::string_view, std::size_t> map;
    for (std::size_t i = 0; i < row_columns().size(); ++i) map.emplace(row_columns()[i], i);
    return map;
  }();
  const auto found = places.find(name);
  return found == places.end() ? std::nullopt : std::optional(found->second);
}

PointRow make_row(study::PointResult result, std::int32_t pp) {
  PointRow row;
  // The pools may differ in their degrees.
  row.gpus = std::max(1, result.pools.empty() ? result.labels.tp * pp * result.labels.replicas
                                              : static_cast<std::int32_t>(result.gpus));
  std::vector<study::Cell> cells = study::point_row(result, study::PoolColumns::yes);
  // Drops the swept columns, which differ between studies, so that all rows have the same columns.
  row.cells.assign(cells.begin() + static_cast<std::ptrdiff_t>(result.swept.size()), cells.end());
  row.result = std::move(result);
  return row;
}

std::optional<double> value_of(const PointRow& row, const Metric& metric) {
  const auto value = raw_value(row, metric);
  if (!value || !std::isfinite(*value)) return {};
  return *value * metric.scale;
}

}  // namespace plimsoll::gui

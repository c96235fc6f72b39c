// SPDX-License-Identifier: Apache-2.0
#include "study/exchange/import_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "load/load_kind.h"
#include "model/error.h"
#include "study/exchange/foreign_formats.h"
#include "study/run/point_result.h"

namespace plimsoll::study {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 2> kExportFormats = {"vllm", "aiperf"};
constexpr double kMillisecondsPerSecond = 1e3;

struct Name {
  std::string_view ours, theirs;
};
constexpr std::array<Name, 4> kVllmTimes = {{{"ttft", "ttft"}, {"tpot", "tpot"}, {"itl", "itl"}, {"latency", "e2el"}}};
constexpr std::array<Name, 5> kVllmStatistics = {
    {{"mean", "mean"}, {"p50", "median"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}}};
constexpr std::array<Name, 3> kAiperfTimes = {
    {{"latency", "request_latency"}, {"ttft", "time_to_first_token"}, {"tpot", "inter_token_latency"}}};
constexpr std::array<Name, 5> kAiperfStatistics = {
    {{"mean", "avg"}, {"p50", "p50"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}}};

std::optional<double> number(const ImportedPoint& point, std::string_view column) {
  const Cell* cell = point.find(column);
  if (cell == nullptr) return {};
  if (const auto* real = std::get_if<double>(cell)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(cell)) return static_cast<double>(*whole);
  return {};
}

std::string text(const ImportedPoint& point, std::string_view column) {
  const Cell* cell = point.find(column);
  return cell != nullptr ? plain_text(*cell) : std::string();
}

void put(ordered_json& object, std::string_view key, std::optional<double> value, double scale = 1) {
  if (value) object[std::string(key)] = *value * scale;
}

ordered_json json_of(const Cell& cell) {
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return *whole;
  if (const auto* yes = std::get_if<bool>(&cell)) return *yes;
  return plain_text(cell);
}

std::optional<double> arrival_cv(const ImportedPoint& p) {
  const auto cv = number(p, kArrivalCv);
  return cv ? cv : number(p, kSweptArrivalCv);
}

// Writes all cells, so that `import` restores the same point to the last digit. Swept keys are not included.
ordered_json own_object(const ImportedPoint& p) {
  static const std::vector<std::string> kColumns = point_columns({});
  ordered_json object = ordered_json::object();
  for (const std::string& column : kColumns)
    if (const Cell* cell = p.find(column)) object[column] = json_of(*cell);
  if (const auto cv = arrival_cv(p)) object[std::string(kArrivalCv)] = *cv;
  return object;
}

// Returns the shape of the gaps' gamma distribution: vLLM's burstiness, AIPerf's smoothness. 1 is a Poisson process.
std::optional<double> gap_shape(const ImportedPoint& p) {
  if (text(p, "load_kind") == load::load_kind(load::Poisson{})) return 1;
  const auto cv = arrival_cv(p);
  return cv && *cv > 0 ? std::optional(1 / (*cv * *cv)) : std::nullopt;
}

// A burst is written as a run with neither rate nor cap. The format cannot describe a trace or a script, so both fields
// are left out.
void put_vllm_load(ordered_json& object, const ImportedPoint& p) {
  const std::optional<double> load = number(p, "load_value");
  const load::LoadQuantity quantity = load::load_kind_named(text(p, "load_kind")).quantity;
  const bool has_rate = quantity == load::LoadQuantity::requests_per_s && load;
  const bool has_clients = quantity == load::LoadQuantity::clients && load;
  object["request_rate"] = has_rate             ? ordered_json(*load)
                           : is_whole(quantity) ? ordered_json("inf")
                                                : ordered_json(nullptr);
  if (has_rate) put(object, "burstiness", gap_shape(p));
  object["max_concurrency"] = has_clients ? ordered_json(*load) : ordered_json(nullptr);
}

ordered_json vllm_object(const ImportedPoint& p) {
  ordered_json object;
  const std::optional<double> completed = number(p, "requests_completed");
  object["backend"] = "plimsoll";
  object["label"] = text(p, "source");
  object["model_id"] = text(p, "model");
  put(object, "tensor_parallel_size", number(p, "tp"));
  put(object, "data_parallel_size", number(p, "replicas"));
  object["hardware"] = text(p, "hardware");
  put_vllm_load(object, p);
  const double failed = number(p, "requests_rejected").value_or(0) + number(p, "requests_timed_out").value_or(0);
  put(object, "num_prompts", completed ? std::optional(*completed + failed) : std::nullopt);
  put(object, "duration", number(p, "duration_s"));
  put(object, "completed", completed);
  put(object, "failed", completed ? std::optional(failed) : std::nullopt);
  // vLLM writes total tokens, so the means are multiplied by the number of completed requests.
  for (const auto& [ours, theirs] :
       {Name{"input_tokens_mean", "total_input_tokens"}, Name{"output_tokens_mean", "total_output_tokens"}}) {
    const auto mean = number(p, ours);
    if (mean && completed) object[std::string(theirs)] = std::llround(*mean * *completed);
  }
  put(object, "request_throughput", number(p, "requests_per_s"));
  put(object, "output_throughput", number(p, "output_tokens_per_s"));
  put(object, "total_token_throughput", number(p, "total_tokens_per_s"));
  for (const Name& time : kVllmTimes)
    for (const Name& statistic : kVllmStatistics)
      put(object, fmt::format("{}_{}_ms", statistic.theirs, time.theirs),
          number(p, fmt::format("{}_{}_s", time.ours, statistic.ours)), kMillisecondsPerSecond);
  object[std::string(kOwnObject)] = own_object(p);
  return object;
}

ordered_json average_of(std::string_view unit, double value) { return {{"unit", unit}, {"avg", value}}; }

// AIPerf's options by name: --concurrency, --request-rate with --arrival-pattern, --fixed-schedule.
ordered_json aiperf_config(const ImportedPoint& p) {
  ordered_json config = {{"model", text(p, "model")}};
  const std::string kind = text(p, "load_kind");
  const std::optional<double> load = number(p, "load_value");
  switch (load::load_kind_named(kind).quantity) {
    case load::LoadQuantity::clients: put(config, "concurrency", load); break;
    case load::LoadQuantity::requests_per_s:
      put(config, "request_rate", load);
      config["arrival_pattern"] = kind;
      if (kind == load::load_kind(load::GammaArrivals{})) put(config, "arrival_smoothness", gap_shape(p));
      break;
    case load::LoadQuantity::requests:
      config["arrival_pattern"] = kAllAtOnce;
      put(config, "request_count", load);
      break;
    case load::LoadQuantity::rate_scale: config["fixed_schedule"] = true; break;
    case load::LoadQuantity::sessions_per_s:  // AIPerf has no arrivals of sessions
    case load::LoadQuantity::none: break;
  }
  return config;
}

ordered_json aiperf_object(const ImportedPoint& p) {
  ordered_json object;
  const auto add = [&](std::string_view theirs, std::string_view unit, std::string_view ours) {
    if (const auto value = number(p, ours)) object[std::string(theirs)] = average_of(unit, *value);
  };
  add("request_throughput", "requests/sec", "requests_per_s");
  add("output_token_throughput", "tokens/sec", "output_tokens_per_s");
  add("request_count", "requests", "requests_completed");
  add("benchmark_duration", "sec", "duration_s");
  add("input_sequence_length", "tokens", "input_tokens_mean");
  add("output_sequence_length", "tokens", "output_tokens_mean");
  for (const Name& time : kAiperfTimes) {
    ordered_json metric;
    for (const Name& statistic : kAiperfStatistics)
      put(metric, statistic.theirs, number(p, fmt::format("{}_{}_s", time.ours, statistic.ours)),
          kMillisecondsPerSecond);
    if (metric.empty()) continue;
    metric["unit"] = "ms";
    object[std::string(time.theirs)] = std::move(metric);
  }
  object["input_config"] = aiperf_config(p);
  object[std::string(kOwnObject)] = own_object(p);
  return object;
}

}  // namespace

std::span<const std::string_view> export_formats() { return kExportFormats; }

std::string exported_text(std::string_view format, const std::vector<ImportedPoint>& points) {
  PLIMSOLL_CHECK(std::find(kExportFormats.begin(), kExportFormats.end(), format) != kExportFormats.end(),
                 "callers pass one of export_formats()");
  std::string text;
  for (const ImportedPoint& point : points)
    text += (format == "vllm" ? vllm_object(point) : aiperf_object(point))
                .dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
            '\n';
  return text;
}

}  // namespace plimsoll::study

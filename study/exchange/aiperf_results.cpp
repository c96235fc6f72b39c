// SPDX-License-Identifier: Apache-2.0
// The file is one object whose members are metrics: {"unit": "ms", "avg": 12.5, "p50": ...}. Newer versions put them
// into "records".
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "study/exchange/foreign_formats.h"

namespace plimsoll::study {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr std::array<Unit, 8> kUnits = {{{"ms", 1e-3},
                                         {"milliseconds", 1e-3},
                                         {"s", 1},
                                         {"sec", 1},
                                         {"seconds", 1},
                                         {"us", 1e-6},
                                         {"ns", 1e-9},
                                         {"nanoseconds", 1e-9}}};

double seconds_of(const ForeignValue& metric) {
  const std::optional<std::string> unit = metric.text("unit");
  if (!unit) metric.fail("'unit' is missing");
  for (const Unit& known : kUnits)
    if (*unit == known.name) return known.seconds;
  metric.fail(fmt::format("found the unit '{}', expected ms, s, us or ns", unit->substr(0, 40)));
}

struct Statistic {
  std::string_view theirs, ours;
};
constexpr std::array<Statistic, 5> kStatistics = {
    {{"avg", "mean"}, {"p50", "p50"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}}};
constexpr std::array<Statistic, 3> kTimes = {
    {{"request_latency", "latency"}, {"time_to_first_token", "ttft"}, {"inter_token_latency", "tpot"}}};

ForeignValue metrics_of(const ForeignValue& document) {
  const auto records = document.find("records");
  return records && records->is_object() ? *records : document;
}

std::optional<double> average(const ForeignValue& metrics, std::string_view name) {
  const auto metric = metrics.find(name);
  return metric ? metric->number("avg") : std::nullopt;
}

void read_load(const ForeignValue& document, PointDraft& draft) {
  const auto config = document.find("input_config");
  if (!config) return;
  const auto usable = [&](const char* name) -> std::optional<double> {
    const auto found = config->find_deep(name);
    return found && found->is_number() ? std::optional(found->as_number()) : std::nullopt;
  };
  const auto pattern = config->find_deep("arrival_pattern");
  const std::string spread = pattern && pattern->raw().is_string() ? pattern->raw().get<std::string>() : "poisson";
  if (const auto rate = usable("request_rate")) {
    draft.load(spread == "constant" || spread == "gamma" ? spread : "poisson", rate);
    const auto shape = usable("arrival_smoothness");
    if (spread == "gamma" && shape && *shape > 0) draft.number(kArrivalCv, 1 / std::sqrt(*shape));
  } else if (const auto clients = usable("concurrency")) {
    draft.load("closed_loop", clients);
  } else if (spread == kAllAtOnce) {
    draft.load("burst", usable("request_count"));
  }
  if (const auto model = config->find_deep("model"); model && model->raw().is_string())
    draft.text("model", model->raw().get<std::string>());
}

}  // namespace

bool is_aiperf(const ForeignValue& document) {
  const ForeignValue metrics = metrics_of(document);
  const auto first = metrics.find("time_to_first_token"), latency = metrics.find("request_latency");
  return (first && first->has("unit")) || (latency && latency->has("unit"));
}

PointDraft read_aiperf(const ForeignValue& document) {
  PointDraft draft;
  read_load(document, draft);
  const ForeignValue metrics = metrics_of(document);
  draft.number("input_tokens_mean", average(metrics, "input_sequence_length"));
  draft.number("output_tokens_mean", average(metrics, "output_sequence_length"));
  draft.count("requests_completed", average(metrics, "request_count"));
  draft.number("requests_per_s", average(metrics, "request_throughput"));
  draft.number("output_tokens_per_s", average(metrics, "output_token_throughput"));
  if (const auto duration = metrics.find("benchmark_duration"))
    draft.number("duration_s", duration->number("avg"), seconds_of(*duration));
  for (const auto& [theirs, ours] : kTimes) {
    const auto metric = metrics.find(theirs);
    if (!metric) continue;
    const double scale = seconds_of(*metric);
    for (const Statistic& statistic : kStatistics)
      draft.number(fmt::format("{}_{}_s", ours, statistic.ours), metric->number(statistic.theirs), scale);
  }
  draft.note("inter_token_latency is (latency - first token) / (tokens - 1) of each request: it is read as TPOT");
  if (const auto errors = average(metrics, "error_request_count"); errors && *errors > 0)
    draft.note(fmt::format("{} requests failed; no figure includes them", *errors));
  if (const auto cancelled = document.find("was_cancelled"); cancelled && cancelled->raw() == true)
    draft.note("the run was cancelled");
  return draft;
}

}  // namespace plimsoll::study

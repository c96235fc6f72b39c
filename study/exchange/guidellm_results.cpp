// SPDX-License-Identifier: Apache-2.0
// {"metadata": …, "benchmarks": [{"config": {"strategy": …}, "metrics": {name: {"successful": {"mean",
// "percentiles"}}}}]}. request_latency is in seconds; names that end in _ms are in milliseconds. Its time per output
// token is a request's latency over all its tokens, including the first. Its inter-token latency is a mean per request,
// which is our TPOT.
#include <fmt/format.h>

#include <array>

#include "study/exchange/foreign_formats.h"

namespace plimsoll::study {
namespace {

struct GuidellmTime {
  std::string_view theirs, ours;
  double scale;
};
constexpr std::array<GuidellmTime, 4> kGuidellmTimes = {
    {{"request_latency", "latency", 1},
     {"time_to_first_token_ms", "ttft", kSecondsPerMillisecond},
     {"inter_token_latency_ms", "tpot", kSecondsPerMillisecond},
     {"time_per_output_token_ms", "latency_per_token", kSecondsPerMillisecond}}};
constexpr std::array<std::string_view, 4> kGuidellmPercentiles = {"p50", "p90", "p95", "p99"};

std::optional<ForeignValue> successful(const ForeignValue& metrics, std::string_view name) {
  const auto metric = metrics.find(name);
  return metric ? metric->find("successful") : std::nullopt;
}

std::optional<double> mean_of(const ForeignValue& metrics, std::string_view name) {
  const auto found = successful(metrics, name);
  return found ? found->number("mean") : std::nullopt;
}

// Version 2 has the strategy in "config", earlier versions in "args".
std::optional<ForeignValue> strategy_of(const ForeignValue& benchmark) {
  for (const char* holder : {"config", "args"}) {
    const auto inner = benchmark.find(holder);
    if (inner && inner->has("strategy")) return inner->find("strategy");
  }
  return {};
}

void read_guidellm_load(const ForeignValue& benchmark, const ForeignValue& metrics, PointDraft& draft) {
  const auto strategy = strategy_of(benchmark);
  const std::string kind = strategy ? strategy->text("type_").value_or("") : "";
  if (kind == "poisson" || kind == "constant") {
    draft.load(kind, strategy->number("rate"));
  } else if (kind == "synchronous") {
    draft.load("closed_loop", 1);
  } else if (kind == "concurrent" || kind == "throughput") {
    std::optional<double> streams = strategy->number(kind == "concurrent" ? "streams" : "max_concurrency");
    if (!streams) {
      streams = mean_of(metrics, "request_concurrency");
      draft.note(fmt::format("the {} strategy states no number of streams; load_value is the mean concurrency", kind));
    }
    draft.load("closed_loop", streams);
  } else {
    draft.note(fmt::format("the strategy '{}' is not known; the load is blank", kind.substr(0, 40)));
  }
}

void read_counts(const ForeignValue& benchmark, PointDraft& draft) {
  const auto scheduler = benchmark.find("scheduler_metrics");
  const auto made = scheduler ? scheduler->find("requests_made") : std::nullopt;
  if (made) draft.count("requests_completed", made->number("successful"));
  const auto errored = made ? made->number("errored") : std::nullopt;
  if (errored && *errored > 0) draft.note(fmt::format("{} requests failed; no figure includes them", *errored));
  std::optional<double> begin, end;
  if (scheduler) begin = scheduler->number("measure_start_time"), end = scheduler->number("measure_end_time");
  if (begin && end && *end > *begin)
    draft.number("duration_s", *end - *begin);
  else
    draft.number("duration_s", benchmark.number("duration"));
}

PointDraft read_benchmark(const ForeignValue& benchmark) {
  PointDraft draft;
  const ForeignValue metrics = benchmark.object("metrics");
  read_guidellm_load(benchmark, metrics, draft);
  read_counts(benchmark, draft);
  draft.number("input_tokens_mean", mean_of(metrics, "prompt_token_count"));
  draft.number("output_tokens_mean", mean_of(metrics, "output_token_count"));
  draft.number("requests_per_s", mean_of(metrics, "requests_per_second"));
  draft.number("output_tokens_per_s", mean_of(metrics, "output_tokens_per_second"));
  draft.number("total_tokens_per_s", mean_of(metrics, "tokens_per_second"));
  for (const GuidellmTime& time : kGuidellmTimes) {
    const auto found = successful(metrics, time.theirs);
    if (!found) continue;
    draft.number(fmt::format("{}_mean_s", time.ours), found->number("mean"), time.scale);
    const auto percentiles = found->find("percentiles");
    if (!percentiles) continue;
    for (const std::string_view p : kGuidellmPercentiles)
      draft.number(fmt::format("{}_{}_s", time.ours, p), percentiles->number(p), time.scale);
  }
  return draft;
}

}  // namespace

bool is_guidellm(const ForeignValue& document) {
  const auto metadata = document.find("metadata");
  if (metadata && metadata->has("guidellm_version")) return document.has("benchmarks");
  const auto benchmarks = document.find("benchmarks");
  return benchmarks && benchmarks->is_array() && benchmarks->size() > 0 && benchmarks->at(0).has("metrics");
}

std::vector<PointDraft> read_guidellm(const ForeignValue& document) {
  const ForeignValue benchmarks = document.list("benchmarks");
  std::vector<PointDraft> drafts;
  for (std::size_t i = 0; i < benchmarks.size(); ++i) drafts.push_back(read_benchmark(benchmarks.at(i)));
  return drafts;
}

}  // namespace plimsoll::study

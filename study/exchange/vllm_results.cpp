// SPDX-License-Identifier: Apache-2.0
// The file has one object per run: totals, then mean_, median_, pNN_ of those of ttft, tpot, itl and e2el that
// --percentile-metrics requested, in milliseconds. With --save-detailed it also has lists with one value per request,
// in seconds.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "sched/metrics_collector.h"
#include "study/exchange/foreign_formats.h"

namespace plimsoll::study {
namespace {

struct VllmMetric {
  std::string_view theirs, ours;
};
constexpr std::array<VllmMetric, 5> kVllmMetrics = {{{"e2el", "latency"},
                                                     {"e2e_latency", "latency"},  // SGLang
                                                     {"ttft", "ttft"},
                                                     {"tpot", "tpot"},
                                                     {"itl", "itl"}}};
constexpr std::array<std::string_view, 3> kVllmPercentiles = {"90", "95", "99"};

void read_vllm_load(const ForeignValue& document, PointDraft& draft) {
  std::optional<double> rate;
  const auto requested = document.find("request_rate");
  if (requested && requested->raw() != "inf") rate = requested->as_number();
  const std::optional<double> concurrency = document.number("max_concurrency");
  if (!rate) {  // "inf": as fast as the cap allows
    if (concurrency)
      draft.load("closed_loop", concurrency);
    else if (requested)
      draft.load("burst", document.number("num_prompts"));
    return;  // neither rate nor cap: the load is unknown
  }
  const double burstiness = document.number("burstiness").value_or(1);
  draft.load(burstiness == 1 ? "poisson" : "gamma", rate);
  if (burstiness != 1 && burstiness > 0)
    draft.number(kArrivalCv, 1 / std::sqrt(burstiness));  // the cv of gaps with that shape
  if (concurrency)
    draft.note(
        fmt::format("the client held no more than {} requests open: the rate may not have been reached", *concurrency));
}

void read_statistics(const ForeignValue& document, PointDraft& draft) {
  for (const auto& [theirs, ours] : kVllmMetrics) {
    draft.number(fmt::format("{}_mean_s", ours), document.number(fmt::format("mean_{}_ms", theirs)),
                 kSecondsPerMillisecond);
    draft.number(fmt::format("{}_p50_s", ours), document.number(fmt::format("median_{}_ms", theirs)),
                 kSecondsPerMillisecond);
    for (const std::string_view p : kVllmPercentiles)
      draft.number(fmt::format("{}_p{}_s", ours, p), document.number(fmt::format("p{}_{}_ms", p, theirs)),
                   kSecondsPerMillisecond);
  }
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Computes latency and latency per token of each request from --save-detailed. A failed request has no tokens.
void read_details(const ForeignValue& document, PointDraft& draft) {
  if (!document.has("ttfts") || !document.has("itls") || !document.has("output_lens")) return;
  const ForeignValue first = document.list("ttfts"), gaps = document.list("itls"),
                     lengths = document.list("output_lens");
  if (gaps.size() != first.size() || lengths.size() != first.size())
    document.fail(fmt::format("found {} ttfts, {} itls and {} output_lens, expected as many of each", first.size(),
                              gaps.size(), lengths.size()));
  std::vector<double> latencies, per_token;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double tokens = lengths.at(i).as_number();
    if (tokens <= 0) continue;
    double latency = first.at(i).as_number();
    const ForeignValue own = gaps.at(i);
    if (!own.is_array()) own.fail("expected a list of seconds");
    for (std::size_t g = 0; g < own.size(); ++g) latency += own.at(g).as_number();
    latencies.push_back(latency);
    per_token.push_back(latency / tokens);
  }
  if (latencies.empty()) return;
  draft.number("latency_per_token_mean_s", mean(per_token));
  draft.number("latency_per_token_p90_s", sched::quantile(per_token, 0.9));
  // Saved statistics of the latency take precedence over recomputed ones.
  if (draft.has("latency_mean_s")) return;
  draft.number("latency_mean_s", mean(latencies));
  constexpr std::array<std::pair<std::string_view, double>, 4> kOf = {
      {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}}};
  for (const auto& [name, p] : kOf) draft.number(fmt::format("latency_{}_s", name), sched::quantile(latencies, p));
  draft.note("latency was not saved: it is the sum of the TTFT and the gaps of each request");
}

}  // namespace

bool is_vllm(const ForeignValue& document) {
  return document.has("mean_ttft_ms") || document.has("ttfts") ||
         (document.has("request_throughput") && document.has("output_throughput"));
}

PointDraft read_vllm(const ForeignValue& document) {
  PointDraft draft;
  draft.text("model", document.text("model_id"));
  // "openai-chat" is the name of the interface, not of the engine behind it.
  const auto backend = document.has("endpoint_type") ? document.text("endpoint_type") : document.text("backend");
  if (backend && !backend->starts_with("openai")) draft.text("engine", backend);
  draft.count("tp", document.number("tensor_parallel_size"));
  draft.count("replicas", document.number("data_parallel_size"));
  read_vllm_load(document, draft);
  const std::optional<double> completed = document.number("completed");
  draft.count("requests_completed", completed);
  if (completed && *completed > 0) {
    const auto each = [&](const char* total) {
      const std::optional<double> sum = document.number(total);
      return sum ? std::optional(*sum / *completed) : std::nullopt;
    };
    draft.number("input_tokens_mean", each("total_input_tokens"));
    draft.number("output_tokens_mean", each("total_output_tokens"));
  }
  draft.number("duration_s", document.number("duration"));
  draft.number("requests_per_s", document.number("request_throughput"));
  draft.number("output_tokens_per_s", document.number("output_throughput"));
  draft.number("total_tokens_per_s", document.number("total_token_throughput"));
  if (const auto failed = document.number("failed"); failed && *failed > 0)
    draft.note(fmt::format("{} requests failed; no figure includes them", *failed));
  read_statistics(document, draft);
  read_details(document, draft);
  return draft;
}

}  // namespace plimsoll::study

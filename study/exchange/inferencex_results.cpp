// SPDX-License-Identifier: Apache-2.0
// The file has one object per point: throughput per GPU, times in seconds as mean_, median_, pNN_.
#include <fmt/format.h>

#include <array>

#include "study/exchange/foreign_formats.h"

namespace plimsoll::study {
namespace {

struct InferenceXName {
  std::string_view theirs, ours;
};
constexpr std::array<InferenceXName, 4> kInferenceXMetrics = {
    {{"e2el", "latency"}, {"ttft", "ttft"}, {"tpot", "tpot"}, {"itl", "itl"}}};
constexpr std::array<InferenceXName, 5> kInferenceXStatistics = {
    {{"mean", "mean"}, {"median", "p50"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}}};

}  // namespace

bool is_inferencex(const ForeignValue& document) {
  return document.has("infmax_model_prefix") || (document.has("tput_per_gpu") && document.has("conc"));
}

PointDraft read_inferencex(const ForeignValue& document) {
  PointDraft draft;
  if (const auto split = document.find("disagg"); split && (split->raw() == true || split->raw() == "true"))
    document.fail("prefill and decode run on different GPUs (disagg), expected one deployment that does both");
  draft.text("model", document.text("model"));
  draft.text("engine", document.text("framework"));
  draft.text("dtype", document.text("precision"));
  const double gpus = document.number("tp").value_or(1) * document.number("pp").value_or(1);
  if (const auto hardware = document.text("hw")) draft.text("hardware", fmt::format("{} x {}", *hardware, gpus));
  draft.count("tp", document.number("tp"));
  draft.load("closed_loop", document.number("conc"));
  draft.number("input_tokens_mean", document.number("isl"));
  draft.number("output_tokens_mean", document.number("osl"));
  draft.number("output_tokens_per_s", document.number("output_tput_per_gpu"), gpus);
  draft.number("total_tokens_per_s", document.number("tput_per_gpu"), gpus);
  for (const InferenceXName& metric : kInferenceXMetrics)
    for (const InferenceXName& statistic : kInferenceXStatistics)
      draft.number(fmt::format("{}_{}_s", metric.ours, statistic.ours),
                   document.number(fmt::format("{}_{}", statistic.theirs, metric.theirs)));
  draft.note("throughput is per GPU in the file; it is multiplied by tp x pp");
  if (const auto attention = document.find("dp_attention");
      attention && (attention->raw() == true || attention->raw() == "true"))
    draft.note("attention is data-parallel in this run, which predictions do not model");
  return draft;
}

}  // namespace plimsoll::study

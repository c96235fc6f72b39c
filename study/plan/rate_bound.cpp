// SPDX-License-Identifier: Apache-2.0
#include "study/plan/rate_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "load/lengths.h"
#include "load/random.h"
#include "model/forward_cost.h"
#include "sim/sim_replica.h"
#include "study/plan/answer.h"
#include "study/run/resolve.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kMargin = 1.1;  // margin on the bound, since the efficiency of matrix products depends on their shape
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Lower bounds on the mean work of a request. A request too long to be served adds nothing.
struct Work {
  double input = 0, decode_rows = 0, context = 0, windowed = 0;  // context, windowed: sums over the decode rows

  void add(double in, double out, double window) {
    const double rows = out - 1;  // the prefill emits the first token
    input += in;
    decode_rows += rows;
    context += rows * (in + rows / 2);
    windowed += window > 0 ? windowed_sum(in, rows, window) : rows * (in + rows / 2);
  }

  [[nodiscard]] Work over(double n) const { return {input / n, decode_rows / n, context / n, windowed / n}; }

 private:
  [[nodiscard]] static double windowed_sum(double in, double rows, double window) {
    const double inside = std::clamp(window - in, 0.0, rows);
    return inside * (in + inside / 2) + (rows - inside) * window;
  }
};

/// A request longer than these is refused.
struct Limits {
  double input = kNoLimit, total = kNoLimit;
  [[nodiscard]] bool takes(double in, double out) const { return in <= input && in + out <= total; }
};

// What is refused is not served and does not load the deployment, so it must not count as work.
Limits limits_of(const load::Scenario& s, std::int64_t longest) {
  Limits limits;
  if (longest > 0) limits.total = static_cast<double>(longest);
  limits.total = std::min(limits.total, static_cast<double>(s.kv.blocks) * s.kv.block_tokens);
  if (s.policy.max_input) limits.input = static_cast<double>(*s.policy.max_input);
  for (const auto& budget : {s.policy.step_token_budget, s.policy.prefill_token_budget}) {
    if (budget)
      limits.input = std::min(limits.input, static_cast<double>(*budget));  // some policies refuse what they cannot cut
  }
  return limits;
}

// Estimates the mean work from the first draws, less a margin for chance.
Work mean_work(const load::WorkloadSpec& workload, const Limits& limits, double window) {
  Work sum;
  if (const auto* const pairs = std::get_if<load::TracePairs>(&workload.lengths)) {
    const auto* const replay = std::get_if<load::TraceReplay>(&workload.load);
    const traces::Trace* const trace = pairs->trace        ? pairs->trace.get()
                                       : replay != nullptr ? replay->trace.get()
                                                           : nullptr;
    if (trace == nullptr || trace->records.empty()) return {};
    for (const traces::TraceRecord& row : trace->records) {
      if (limits.takes(row.input_tokens, row.output_tokens)) sum.add(row.input_tokens, row.output_tokens, window);
    }
    return sum.over(static_cast<double>(trace->records.size()));
  }
  const auto& both = std::get<load::IndependentLengths>(workload.lengths);
  const bool fixed =
      std::holds_alternative<load::FixedLength>(both.input) && std::holds_alternative<load::FixedLength>(both.output);
  constexpr std::uint64_t kDraws = 4096;
  constexpr double kSigmas = 5;
  const load::LengthSampler input(both.input, load::RandomStream(workload.seed, 0, load::Purpose::input_length));
  const load::LengthSampler output(both.output, load::RandomStream(workload.seed, 0, load::Purpose::output_length));
  const std::uint64_t draws = fixed ? 1 : kDraws;
  double tokens = 0, squares = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const double in = input.draw(i), out = output.draw(i);
    if (!limits.takes(in, out)) continue;
    sum.add(in, out, window);
    tokens += in + out;
    squares += (in + out) * (in + out);
  }
  const auto n = static_cast<double>(draws);
  if (!(tokens > 0)) return {};
  // The mean of the draws may exceed the true mean by chance. So it is lowered by five standard errors, which gives a
  // lower bound of the true mean.
  const double cv = std::sqrt(std::max(0.0, squares * n / (tokens * tokens) - 1));
  const double at_least = std::max(0.0, 1 - kSigmas * cv / std::sqrt(n));
  return sum.over(n / at_least);
}

// Returns the most rows of a step, by the batch limit and by the pool.
double most_rows(const load::Scenario& s, const Work& work) {
  const sched::PolicyConfig& policy = s.policy;
  double rows = kNoLimit;
  if (policy.max_running || sched::traits_of(policy).returns_at_batch_end)
    rows = static_cast<double>(sched::resolve_limits(policy).max_running);
  if (s.kv.prefix_caching || !(work.decode_rows > 0)) return rows;  // contexts may share blocks
  const double pool = static_cast<double>(s.kv.blocks) * s.kv.block_tokens;
  return std::min(rows, std::max(1.0, pool / (work.context / work.decode_rows)));
}

double constant_service(const load::Scenario& s, const Work& work, double rows) {
  const model::ConstantCost& cost = *s.engine->constant;
  if (!std::isfinite(rows)) return 0;
  if (cost.batch) return cost.batch->count() / rows;
  return (cost.prefill.count() + (work.decode_rows + 1) * cost.decode.count()) / rows;
}

class FullBatch {
 public:
  FullBatch(const load::Scenario& s, const Work& work)
      : work_(work), prompt_(s.kv.prefix_caching ? 0 : work.input), cost_(sim::cost_inputs(s)) {}

  // Returns the least seconds per request, however prompts and decodes share the steps.
  [[nodiscard]] double least(double most_rows) {
    const double prompt = prompt_ > 0 ? least_prompt() : 0;
    if (!(work_.decode_rows > 0)) return prompt;
    constexpr double kStep = 1.2, kMaxRows = 16384;
    const double top = std::floor(std::min(most_rows, kMaxRows));
    double least = kNoLimit;
    // Geometric steps: the cost of a row is flat where batches are large.
    for (double rows = 1; rows < top; rows = std::max(rows + 1, std::floor(rows * kStep)))
      least = std::min(least, at(rows, prompt));
    return std::min(least, at(top, prompt));
  }

 private:
  [[nodiscard]] double at(double rows, double prompt) {
    const double steps = work_.decode_rows / rows;
    // Prompts either run in steps of their own or are mixed evenly into the decode steps. The faster way is a bound for
    // both kinds of scheduler.
    const double apart = steps * step(rows, 0) + prompt;
    return prompt_ > 0 ? std::min(apart, steps * step(rows, rows * prompt_ / work_.decode_rows)) : apart;
  }

  [[nodiscard]] double step(double rows, double prompt_tokens) {
    const double share = rows / work_.decode_rows;
    spans_.clear();
    for (double left = std::floor(prompt_tokens); left >= 1; left -= prompt_) {
      spans_.push_back({static_cast<std::int64_t>(std::max(1.0, std::floor(std::min(left, prompt_)))), 0});
    }
    return cost_
        .forward({.prefill = spans_,
                  .decode_rows = static_cast<std::int64_t>(rows),
                  .decode_context = share * work_.context,
                  .decode_context_windowed = share * work_.windowed,
                  .sampled = static_cast<std::int64_t>(rows)})
        .total();
  }

  // Seconds per prompt in steps of prompts alone.
  [[nodiscard]] double least_prompt() {
    // Batches of prompts share the reading of the weights; beyond some 64 nothing is gained.
    constexpr std::array<double, 7> kPrompts = {1, 2, 4, 8, 16, 32, 64};
    double least = kNoLimit;
    for (const double n : kPrompts) {
      const std::int64_t tokens = std::max<std::int64_t>(1, static_cast<std::int64_t>(prompt_));
      spans_.assign(static_cast<std::size_t>(n), {tokens, 0});
      least = std::min(least, cost_.forward({.prefill = spans_,
                                             .decode_rows = 0,
                                             .decode_context = 0,
                                             .decode_context_windowed = 0,
                                             .sampled = static_cast<std::int64_t>(n)})
                                      .total() /
                                  n);
    }
    return least;
  }

  const Work work_;
  double prompt_ = 0;
  model::ForwardCost cost_;
  std::vector<model::PrefillSpan> spans_;
};

// Returns the requests/s at load 1; nullopt if the load has no rate.
std::optional<double> rate_of_unit(const load::LoadSpec& load) {
  if (load::stationary_rate(load)) return 1;
  const auto* const replay = std::get_if<load::TraceReplay>(&load);
  if (replay == nullptr || !replay->trace || !replay->trace->has_arrivals()) return {};
  const double length = 1e-9 * static_cast<double>(load::tile_length(*replay->trace));
  return length > 0 ? std::optional(static_cast<double>(replay->trace->records.size()) / length) : std::nullopt;
}

}  // namespace

Bounded beyond_rate(const Candidate& candidate, const std::optional<double>& most) {
  const double load = load::load_value(candidate.spec.workload.load);
  if (!most || sched::kShareServed * load <= *most) return {};
  const auto unit = load_unit(candidate.spec.workload.load);
  return {fmt::format("carries at most {:.3g} of {:.4g} {}: full batches serve no more", *most, load, unit),
          load / *most};
}

double RateBound::least_service(const load::Scenario& s, std::int64_t longest) {
  const double window = s.shape && s.shape->sliding_window > 0 ? static_cast<double>(s.shape->sliding_window) : 0;
  const Work work = mean_work(s.workload, limits_of(s, longest), window);
  const double rows = most_rows(s, work);
  if (s.engine->constant) return constant_service(s, work, rows);
  const Key key{s.accelerator.get(),
                s.engine.get(),
                s.shape.get(),
                s.interconnect.get(),
                s.tp,
                s.pp,
                static_cast<int>(s.weight_dtype),
                static_cast<int>(s.kv_dtype),
                s.kv.prefix_caching ? 1 : 0,
                static_cast<std::int64_t>(std::min(rows, 1e9)),
                std::llround(work.context)};
  const auto known = services_.find(key);
  if (known != services_.end()) return known->second;
  const double service = FullBatch(s, work).least(rows);
  services_.emplace(key, service);
  return service;
}

std::optional<double> RateBound::most(const Candidate& candidate) {
  const PointSpec& spec = candidate.spec;
  const auto rate = rate_of_unit(spec.workload.load);
  if (!rate || !spec.deployment.is_fixed() || spec.workload.prefix.groups > 0) return {};
  const ResolvedPoint point = resolve_spec(spec);
  if (!point.scenario) return {};
  const double service = least_service(*point.scenario, longest_sequence(spec));
  if (!(service > 0) || !std::isfinite(service)) return {};
  const double margin = point.scenario->engine->constant ? 1 : kMargin;
  return margin * spec.deployment.replicas / service / *rate;
}

}  // namespace plimsoll::study::plan

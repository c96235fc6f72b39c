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
/// Lower bounds on the mean work of a request. A request too long to be served adds nothing.
struct RequestWork {
  double input = 0, decode_rows = 0, context = 0, windowed = 0;  // context, windowed: sums over the decode rows

  void add(double in, double out, double window) {
    const double rows = out - 1;  // the prefill emits the first token
    input += in;
    decode_rows += rows;
    context += rows * (in + rows / 2);
    windowed += window > 0 ? windowed_sum(in, rows, window) : rows * (in + rows / 2);
  }

  [[nodiscard]] RequestWork over(double n) const { return {input / n, decode_rows / n, context / n, windowed / n}; }

 private:
  [[nodiscard]] static double windowed_sum(double in, double rows, double window) {
    const double inside = std::clamp(window - in, 0.0, rows);
    return inside * (in + inside / 2) + (rows - inside) * window;
  }
};

namespace {

using Work = RequestWork;

constexpr double kInKey = 1 << 20;  // keeps two lengths apart in a key
constexpr double kMargin = 1.1;  // margin on the bound, since the efficiency of matrix products depends on their shape
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Limits on lengths; longer requests are refused.
struct Limits {
  double input = kNoLimit, total = kNoLimit;
  [[nodiscard]] bool takes(double in, double out) const { return in <= input && in + out <= total; }
};

// Refused requests do not load the deployment, so they must not count as work. `cuts`: the policy computes prompts in
// chunks.
Limits limits_of(const load::Scenario& s, std::int64_t longest, bool cuts = false) {
  Limits limits;
  if (longest > 0) limits.total = static_cast<double>(longest);
  limits.total = std::min(limits.total, static_cast<double>(s.kv.blocks) * s.kv.block_tokens);
  if (s.policy.max_input) limits.input = static_cast<double>(*s.policy.max_input);
  for (const auto& budget : {s.policy.step_token_budget, s.policy.prefill_token_budget}) {
    if (budget && !cuts)
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
  // The mean of the draws may exceed the true mean by chance. Lowered by five standard errors, it is a lower bound of
  // the true mean.
  const double cv = std::sqrt(std::max(0.0, squares * n / (tokens * tokens) - 1));
  const double at_least = std::max(0.0, 1 - kSigmas * cv / std::sqrt(n));
  return sum.over(n / at_least);
}

/// The part of a request that a pool does.
enum class Part : std::uint8_t { whole, prompt, answer };

// Returns the most rows of a step, by the batch limit and by the pool.
double most_rows(const load::Scenario& s, const Work& work, bool shares) {
  const sched::PolicyConfig& policy = s.policy;
  double rows = kNoLimit;
  if (policy.max_running || sched::traits_of(policy).returns_at_batch_end)
    rows = static_cast<double>(sched::resolve_limits(policy).max_running);
  if (shares || !(work.decode_rows > 0)) return rows;  // contexts may share blocks
  const double pool = static_cast<double>(s.kv.blocks) * s.kv.block_tokens;
  return std::min(rows, std::max(1.0, pool / (work.context / work.decode_rows)));
}

double constant_service(const load::Scenario& s, const Work& work, double rows) {
  const model::ConstantCost& cost = *s.engine->constant;
  if (!std::isfinite(rows)) return 0;
  if (cost.batch) return cost.batch->count() / rows;
  return (cost.prefill.count() + (work.decode_rows + 1) * cost.decode.count()) / rows;
}

// Returns the time of a part of a request for an engine of constant cost.
double constant_part(const load::Scenario& s, const Work& work, double rows, Part part, bool shares) {
  const model::ConstantCost& cost = *s.engine->constant;
  const double input = shares || part == Part::answer ? 0 : work.input;
  const double decodes = part == Part::prompt ? 0 : work.decode_rows;
  if (cost.rates) return input * cost.rates->prompt_token.count() + decodes * cost.rates->decode.count();
  return std::isfinite(rows) && !cost.batch ? decodes * cost.decode.count() / rows : 0;
}

class FullBatch {
 public:
  /// `shares`: prompts may be cached and then take no time.
  FullBatch(const load::Scenario& s, const Work& work, bool shares)
      : work_(work), prompt_(shares ? 0 : work.input), cost_(sim::cost_inputs(s)) {}

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

  // Returns the least seconds per prompt in steps that contain only prompts.
  [[nodiscard]] double least_prompt() {
    // Prompts of a batch share the reading of the weights; beyond about 64 prompts nothing is gained.
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

double rate_margin(const PointSpec& pool) { return pool.engine->constant ? 1 : kMargin; }

bool has_local_prefills(const PointSpec& spec) {
  return spec.prefill && spec.local_prefill.policy != load::LocalPrefill::Policy::never;
}

std::optional<double> beyond_need(double need, std::int32_t replicas) {
  return need > 0 ? std::optional(std::max(0.0, replicas - need)) : std::nullopt;
}

namespace {
// Returns whether all gaps between requests and their work are equal, or stated by a trace.
bool is_even(const load::WorkloadSpec& workload) {
  if (std::holds_alternative<load::TraceReplay>(workload.load)) return true;
  const auto* const lengths = std::get_if<load::IndependentLengths>(&workload.lengths);
  return std::holds_alternative<load::ConstantRate>(workload.load) && lengths != nullptr &&
         std::holds_alternative<load::FixedLength>(lengths->input) &&
         std::holds_alternative<load::FixedLength>(lengths->output);
}
}  // namespace

// If the load exceeds the rate even slightly, the queue grows without end, which only a long run shows. With random
// gaps or work, it also does so exactly at the rate.
bool is_beyond(const PointSpec& spec, double load, double most) {
  constexpr double kRounding = 1e-9;
  const bool sheds = spec.limits.timeout.count() > 0 || spec.policy.max_concurrent;
  const double counts = sheds ? sched::kShareServed : is_even(spec.workload) ? 1 - kRounding : 1 + kRounding;
  return counts * load > most;
}

Bounded beyond_rate(const Candidate& candidate, const std::optional<double>& most) {
  const double load = load::load_value(candidate.spec.workload.load);
  if (!most || !is_beyond(candidate.spec, load, *most)) return {};
  const auto unit = load_unit(candidate.spec.workload.load);
  return {fmt::format("carries at most {:.3g} of {:.4g} {}: full batches serve no more", *most, load, unit),
          load / *most};
}

namespace {
double window_of(const load::Scenario& s) {
  return s.shape && s.shape->sliding_window > 0 ? static_cast<double>(s.shape->sliding_window) : 0;
}
}  // namespace

double RateBound::least_service(const load::Scenario& s, std::int64_t longest) {
  const Work work = mean_work(s.workload, limits_of(s, longest), window_of(s));
  const bool shares = s.kv.prefix_caching;
  const double rows = most_rows(s, work, shares);
  if (s.engine->constant) return constant_service(s, work, rows);
  return full_batch(s, work, rows, shares);
}

double RateBound::full_batch(const load::Scenario& s, const Work& work, double rows, bool shares) {
  const Key key{s.accelerator.get(),
                s.engine.get(),
                s.shape.get(),
                s.interconnect.get(),
                s.tp,
                s.pp,
                s.ep,
                static_cast<int>(s.weight_dtype),
                static_cast<int>(s.kv_dtype),
                shares ? 1 : 0,
                static_cast<std::int64_t>(std::min(rows, 1e9)),
                std::llround(work.context + kInKey * work.input)};
  const auto known = services_.find(key);
  if (known != services_.end()) return known->second;
  const double service = FullBatch(s, work, shares).least(rows);
  services_.emplace(key, service);
  return service;
}

// A request that one of the pools refuses loads neither.
std::optional<RateBound::PoolServices> RateBound::services_of(const PointSpec& spec) {
  const auto rate = rate_of_unit(spec.workload.load);
  if (!rate || !spec.prefill || !spec.is_fixed()) return {};
  const ResolvedPoint point = resolve_spec(spec);
  if (!point.scenario) return {};
  const load::Scenario &decode = *point.scenario, &prefill = *point.scenario->pools->prefill;
  const bool cuts = !sched::traits_of(prefill.policy).fits_whole_prompts;
  const Limits a = limits_of(decode, longest_sequence(spec), true),
               b = limits_of(prefill, longest_sequence(*spec.prefill), cuts);
  const Work work =
      mean_work(decode.workload, {std::min(a.input, b.input), std::min(a.total, b.total)}, window_of(decode));
  const auto least = [&](const load::Scenario& s, Part part, bool shares) {
    Work some = work;
    if (part == Part::prompt) some.decode_rows = some.context = some.windowed = 0;
    if (part == Part::answer) some.input = 0;
    const double rows = most_rows(s, work, shares);
    if (s.engine->constant) return constant_part(s, some, rows, part, shares);
    if (!(some.input > 0) && !(some.decode_rows > 0)) return 0.0;
    return full_batch(s, some, rows, shares);
  };
  const bool shared = shares_caches(spec), prompts_shared = shares_caches(*spec.prefill);
  PoolServices out{.prompt = least(prefill, Part::prompt, prompts_shared),
                   .answer = least(decode, Part::answer, shared),
                   .both = 0,
                   .rate = *rate};
  if (has_local_prefills(spec)) out.both = least(decode, Part::whole, shared);
  out.prefill_margin = rate_margin(*spec.prefill);
  out.decode_margin = rate_margin(spec);
  return out;
}

std::optional<PoolNeed> RateBound::need(const PointSpec& spec) {
  const auto services = services_of(spec);
  if (!services) return {};
  const double rate = services->rate * load::load_value(spec.workload.load);
  return PoolNeed{rate * services->prompt, rate * services->answer};
}

// The decode pool produces all answers. It also computes the prompts of a fraction f of the requests; the prefill pool
// computes the others. For any f, the requests/s are at most decode / both + prefill / prompt: the requests whose
// prompts the decode pool computes, plus those whose prompts the prefill pool computes.
std::optional<double> RateBound::most_of_pools(const PointSpec& spec) {
  const auto s = services_of(spec);
  if (!s) return {};
  const double prefill = s->prefill_margin * spec.prefill->deployment.replicas,
               decode = s->decode_margin * spec.deployment.replicas;
  double most = kNoLimit;
  if (s->answer > 0) most = decode / s->answer;
  if (s->prompt > 0 && !has_local_prefills(spec)) most = std::min(most, prefill / s->prompt);
  if (s->prompt > 0 && s->both > 0) most = std::min(most, prefill / s->prompt + decode / s->both);
  return std::isfinite(most) ? std::optional(most / s->rate) : std::nullopt;
}

std::optional<double> RateBound::most(const Candidate& candidate) {
  const PointSpec& spec = candidate.spec;
  if (spec.prefill) return most_of_pools(spec);
  const auto rate = rate_of_unit(spec.workload.load);
  if (!rate || !spec.deployment.is_fixed() || spec.workload.prefix.groups > 0) return {};
  const ResolvedPoint point = resolve_spec(spec);
  if (!point.scenario) return {};
  const double service = least_service(*point.scenario, longest_sequence(spec));
  if (!(service > 0) || !std::isfinite(service)) return {};
  return rate_margin(spec) * spec.deployment.replicas / service / *rate;
}

}  // namespace plimsoll::study::plan

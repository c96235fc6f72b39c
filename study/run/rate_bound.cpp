// SPDX-License-Identifier: Apache-2.0
#include "study/run/rate_bound.h"

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
#include "study/file/read_point.h"
#include "study/run/resolve.h"

namespace plimsoll::study {
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
struct LengthLimits {
  double input = kNoLimit, total = kNoLimit;
  [[nodiscard]] bool takes(double in, double out) const { return in <= input && in + out <= total; }
};

// Refused requests do not load the deployment, so they must not count as work. `cuts`: the policy computes prompts in
// chunks.
LengthLimits limits_of(const load::Scenario& s, bool cuts = false) {
  LengthLimits limits;
  const std::int64_t longest = s.policy.max_total.value_or(s.policy.model_max_len);
  if (longest > 0) limits.total = static_cast<double>(longest);
  limits.total = std::min(limits.total, static_cast<double>(s.kv.blocks) * s.kv.block_tokens);
  if (s.policy.max_input) limits.input = static_cast<double>(*s.policy.max_input);
  for (const auto& budget : {s.policy.step_token_budget, s.policy.prefill_token_budget}) {
    if (budget && !cuts)
      limits.input = std::min(limits.input, static_cast<double>(*budget));  // some policies refuse what they cannot cut
  }
  return limits;
}

// Returns at least what the mean of these lengths is below; nullopt if it depends on how they are clamped.
std::optional<double> least_mean(const load::LengthMarginal& lengths) {
  if (const auto* const fixed = std::get_if<load::FixedLength>(&lengths)) return fixed->tokens;
  const auto& d = std::get<load::LengthDistribution>(lengths);
  if (d.family == load::LengthFamily::uniform) return 0.5 * (d.min + d.max);
  if (d.min > 1 || d.max > 0) return {};
  constexpr double kRounding = 0.5;  // to whole tokens
  return d.family == load::LengthFamily::geometric ? d.mean : std::max(1.0, d.mean - kRounding);
}

// Returns whether no request is refused, or none that matters to the means: not even of a distribution with a long
// tail.
bool takes_all(const LengthLimits& limits, const load::IndependentLengths& both) {
  constexpr double kFarBeyond = 1e6;
  const auto most = [](const load::LengthMarginal& m) {
    const std::optional<std::int64_t> largest = largest_length(m);
    return largest ? static_cast<double>(*largest) : kFarBeyond * load::length_mean(m);
  };
  return limits.takes(most(both.input), most(both.output));
}

// Estimates the mean work from the first draws, less a margin for chance; means that are known need none.
Work mean_work(const load::WorkloadSpec& workload, const LengthLimits& limits, double window) {
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
  double inputs = 0, outputs = 0, input_squares = 0, output_squares = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const double in = input.draw(i), out = output.draw(i);
    if (!limits.takes(in, out)) continue;
    sum.add(in, out, window);
    inputs += in, outputs += out;
    input_squares += in * in, output_squares += out * out;
  }
  const auto n = static_cast<double>(draws);
  if (!(inputs + outputs > 0)) return {};
  // The mean of the draws may exceed the true mean by chance. Lowered by five standard errors, it is a lower bound of
  // the true mean: of prompts and of answers, since a pool may do only one of them.
  const auto relative_variance = [n](double total, double squares) {
    return total > 0 ? squares * n / (total * total) - 1 : 0.0;
  };
  const double cv =
      std::sqrt(std::max({0.0, relative_variance(inputs, input_squares), relative_variance(outputs, output_squares)}));
  const double at_least = std::max(0.0, 1 - kSigmas * cv / std::sqrt(n));
  Work work = sum.over(n / at_least);
  if (!takes_all(limits, both)) return work;
  if (const auto mean = least_mean(both.input)) work.input = *mean;
  if (const auto mean = least_mean(both.output)) work.decode_rows = *mean - 1;
  return work;
}

/// The part of a request that a pool does.
enum class WorkPart : std::uint8_t { whole, prompt, answer };

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

// Returns the time of a request's work for an engine of constant cost.
double constant_part(const load::Scenario& s, const Work& work, double rows, bool shares) {
  const model::ConstantCost& cost = *s.engine->constant;
  const double input = shares ? 0 : work.input;
  if (cost.rates) return input * cost.rates->prompt_token.count() + work.decode_rows * cost.rates->decode.count();
  return std::isfinite(rows) && !cost.batch ? work.decode_rows * cost.decode.count() / rows : 0;
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

double margin_of(const model::EngineProfile& engine) { return engine.constant ? 1 : kMargin; }

bool has_local_prefills(const load::Scenario& s) {
  return s.pools && s.pools->local.policy != load::LocalPrefill::Policy::never;
}

double window_of(const load::Scenario& s) {
  return s.shape && s.shape->sliding_window > 0 ? static_cast<double>(s.shape->sliding_window) : 0;
}

// Returns whether all gaps between requests and their work are equal, or stated by a trace.
bool is_even(const load::WorkloadSpec& workload) {
  if (std::holds_alternative<load::TraceReplay>(workload.load)) return true;
  const auto* const lengths = std::get_if<load::IndependentLengths>(&workload.lengths);
  return std::holds_alternative<load::ConstantRate>(workload.load) && lengths != nullptr &&
         std::holds_alternative<load::FixedLength>(lengths->input) &&
         std::holds_alternative<load::FixedLength>(lengths->output);
}

// Returns the fraction of the load that a stable deployment must carry. If the load exceeds the rate even slightly, the
// queue grows without end, which only a long run shows. With random gaps or work, it also does so exactly at the rate.
double carried_at_least(const load::WorkloadSpec& workload, const load::ClientLimits& limits,
                        const sched::PolicyConfig& policy) {
  constexpr double kRounding = 1e-9;
  if (limits.timeout.count() > 0 || policy.max_concurrent) return sched::kShareServed;
  return is_even(workload) ? 1 - kRounding : 1 + kRounding;
}

// `ratio`: the load as a multiple of what the deployment carries.
std::string beyond_text(const load::Scenario& s, const std::optional<PoolNeed>& need, double ratio) {
  constexpr double kShown = 1e-4;
  const auto grows = [](const std::string& why) { return "the backlog grows: " + why; };
  const auto text = [&](double work, std::int32_t replicas, std::string_view pool) {
    if (work / replicas < 1 + kShown)
      return grows(
          fmt::format("the load equals the capacity of {} {}replicas, so with random gaps the queue grows without end",
                      replicas, pool));
    // With as many digits as show the difference.
    const int digits = work - replicas < 0.005 ? 4 : work / replicas < 1.01 ? 2 : 1;
    return grows(fmt::format("the load needs {:.{}f} {}replicas, but there {} {}", work, digits, pool,
                             replicas == 1 ? "is" : "are", replicas));
  };
  if (!s.pools) return text(ratio * s.replicas, s.replicas, "");
  if (need && !has_local_prefills(s)) {
    const std::int32_t prefill = s.pools->prefill->replicas;
    const bool prompts = need->prefill / prefill > need->decode / s.replicas;
    return prompts ? text(need->prefill, prefill, "prefill ") : text(need->decode, s.replicas, "decode ");
  }
  return grows("full batches serve less than the offered load");
}

// Returns the requests/s at load 1; nullopt if the load has no rate.
std::optional<double> rate_of_unit(const load::LoadSpec& load) {
  if (load::stationary_rate(load)) return 1;
  const auto* const replay = std::get_if<load::TraceReplay>(&load);
  if (replay == nullptr || !replay->trace || !replay->trace->has_arrivals()) return {};
  const double length = 1e-9 * static_cast<double>(load::tile_length(*replay->trace));
  return length > 0 ? std::optional(static_cast<double>(replay->trace->records.size()) / length) : std::nullopt;
}

}  // namespace

double rate_margin(const PointSpec& pool) { return margin_of(*pool.engine); }

bool has_local_prefills(const PointSpec& spec) {
  return spec.prefill && spec.local_prefill.policy != load::LocalPrefill::Policy::never;
}

std::optional<double> beyond_need(double need, std::int32_t replicas) {
  return need > 0 ? std::optional(std::max(0.0, replicas - need)) : std::nullopt;
}

bool shares_caches(const sched::PolicyConfig& policy, const load::WorkloadSpec& workload) {
  if (!policy.prefix_caching.value_or(true)) return false;
  const auto has_prefixes = [](const auto* from) {
    return from != nullptr && from->trace && from->trace->hash_block_tokens > 0;
  };
  return workload.prefix.groups > 0 || load::has_turns(workload.load) ||
         has_prefixes(std::get_if<load::TraceReplay>(&workload.load)) ||
         has_prefixes(std::get_if<load::TracePairs>(&workload.lengths));
}

bool is_beyond(const PointSpec& spec, double load, double most) {
  return most < carried_at_least(spec.workload, spec.limits, spec.policy) * load;
}

double RateBound::least_service(const load::Scenario& s) {
  const Work work = mean_work(s.workload, limits_of(s), window_of(s));
  const bool shares = s.kv.prefix_caching;
  const double rows = most_rows(s, work, shares);
  if (s.engine->constant && s.engine->constant->rates)
    return constant_part(s, work, rows, shares_caches(s.policy, s.workload));
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
std::optional<RateBound::PoolServices> RateBound::services_of(const load::Scenario& decode) {
  const auto rate = rate_of_unit(decode.workload.load);
  if (!rate || !decode.pools || decode.life || decode.pools->prefill->life) return {};
  const load::Scenario& prefill = *decode.pools->prefill;
  const bool cuts = !sched::traits_of(prefill.policy).fits_whole_prompts;
  const LengthLimits a = limits_of(decode, true), b = limits_of(prefill, cuts);
  const Work work =
      mean_work(decode.workload, {std::min(a.input, b.input), std::min(a.total, b.total)}, window_of(decode));
  const auto least = [&](const load::Scenario& s, WorkPart part) {
    const bool shares = shares_caches(s.policy, s.workload);
    Work some = work;
    if (part == WorkPart::prompt) some.decode_rows = some.context = some.windowed = 0;
    if (part == WorkPart::answer) some.input = 0;
    const double rows = most_rows(s, work, shares);
    if (s.engine->constant) return constant_part(s, some, rows, shares);
    if (!(some.input > 0) && !(some.decode_rows > 0)) return 0.0;
    return full_batch(s, some, rows, shares);
  };
  PoolServices out{
      .prompt = least(prefill, WorkPart::prompt), .answer = least(decode, WorkPart::answer), .both = 0, .rate = *rate};
  if (has_local_prefills(decode)) out.both = least(decode, WorkPart::whole);
  out.prefill_margin = margin_of(*prefill.engine);
  out.decode_margin = margin_of(*decode.engine);
  return out;
}

std::optional<PoolNeed> RateBound::need(const load::Scenario& scenario) {
  const auto services = services_of(scenario);
  if (!services) return {};
  const double rate = services->rate * load::load_value(scenario.workload.load);
  return PoolNeed{rate * services->prompt, rate * services->answer};
}

std::optional<PoolNeed> RateBound::need(const PointSpec& spec) {
  const ResolvedPoint point = resolve_spec(spec);
  return point.scenario ? need(*point.scenario) : std::nullopt;
}

// The decode pool produces all answers. It also computes the prompts of a fraction f of the requests; the prefill pool
// computes the others. For any f, the requests/s are at most decode / both + prefill / prompt: the requests whose
// prompts the decode pool computes, plus those whose prompts the prefill pool computes.
std::optional<double> RateBound::most_of_pools(const load::Scenario& pool) {
  const auto s = services_of(pool);
  if (!s) return {};
  const double prefill = s->prefill_margin * pool.pools->prefill->replicas, decode = s->decode_margin * pool.replicas;
  double most = kNoLimit;
  if (s->answer > 0) most = decode / s->answer;
  if (s->prompt > 0 && !has_local_prefills(pool)) most = std::min(most, prefill / s->prompt);
  if (s->prompt > 0 && s->both > 0) most = std::min(most, prefill / s->prompt + decode / s->both);
  return std::isfinite(most) ? std::optional(most / s->rate) : std::nullopt;
}

std::optional<double> RateBound::most(const load::Scenario& scenario) {
  if (scenario.pools) return most_of_pools(scenario);
  const auto rate = rate_of_unit(scenario.workload.load);
  if (!rate || scenario.life || scenario.workload.prefix.groups > 0) return {};
  const double service = least_service(scenario);
  if (!(service > 0) || !std::isfinite(service)) return {};
  return margin_of(*scenario.engine) * scenario.replicas / service / *rate;
}

std::optional<double> RateBound::most(const PointSpec& spec) {
  const ResolvedPoint point = resolve_spec(spec);
  return point.scenario ? most(*point.scenario) : std::nullopt;
}

void deny_beyond_rate(const load::Scenario& scenario, sched::SteadyState& steady) {
  const bool exact =
      scenario.engine->constant || (scenario.pools && scenario.pools->prefill->engine->constant.has_value());
  if (!exact || steady.verdict == sched::Steadiness::unstable) return;
  RateBound bound;
  const std::optional<double> most = bound.most(scenario);
  const double load = load::load_value(scenario.workload.load);
  if (!most || *most >= carried_at_least(scenario.workload, scenario.limits, scenario.policy) * load) return;
  steady = {.verdict = sched::Steadiness::unstable,
            .grows = true,
            .reason = beyond_text(scenario, bound.need(scenario), load / *most),
            .requests_needed = 0};
}

}  // namespace plimsoll::study

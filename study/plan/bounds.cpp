// SPDX-License-Identifier: Apache-2.0
#include "study/plan/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "model/forward_cost.h"
#include "sim/sim_replica.h"
#include "study/plan/answer.h"
#include "study/plan/judgement.h"
#include "study/run/rate_bound.h"
#include "study/run/resolve.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kFourSigma = 4;
constexpr double kItlRounding = 1e-3, kRounding = 1e-6;
constexpr std::int64_t kMaxRows = 2048;  // beyond this, the bound is not worth its computation

/// Lower bounds on the lengths of a workload's requests, and on the mean of their outputs.
struct Lengths {
  double input_min = 1, output_min = 1;
  double output_mean_low = 1;  // holds for all but one in a million runs of so many requests
};

double fixed_or(const load::LengthMarginal& marginal, double otherwise) {
  const auto* fixed = std::get_if<load::FixedLength>(&marginal);
  return fixed != nullptr ? fixed->tokens : otherwise;
}

double floor_of_marginal(const load::LengthMarginal& marginal) {
  const auto* family = std::get_if<load::LengthDistribution>(&marginal);
  return fixed_or(marginal, family != nullptr ? std::max<double>(1, family->min) : 1);
}

// Drawn lengths are bounded only by their minimum. A trace is known, so its mean less five standard errors is a bound.
Lengths lengths_of(const load::WorkloadSpec& workload, double requests) {
  constexpr double kFiveSigma = 5;
  Lengths lengths;
  if (const auto* independent = std::get_if<load::IndependentLengths>(&workload.lengths)) {
    lengths.input_min = floor_of_marginal(independent->input);
    lengths.output_min = floor_of_marginal(independent->output);
    const auto* const closed = std::get_if<load::ClosedLoop>(&workload.load);
    if (closed != nullptr && closed->drift > 0)
      lengths.output_min = load::shortest_output(static_cast<std::int32_t>(lengths.output_min), closed->drift);
    lengths.output_mean_low = lengths.output_min;
    return lengths;
  }
  const auto* pairs = std::get_if<load::TracePairs>(&workload.lengths);
  if (pairs == nullptr || !pairs->trace || pairs->trace->records.empty()) return lengths;
  double sum = 0, squares = 0;
  for (const traces::TraceRecord& record : pairs->trace->records) {
    sum += record.output_tokens;
    squares += static_cast<double>(record.output_tokens) * record.output_tokens;
  }
  const auto n = static_cast<double>(pairs->trace->records.size());
  const double mean = sum / n, sigma = std::sqrt(std::max(0.0, squares / n - mean * mean));
  lengths.output_mean_low = std::max(1.0, mean - kFiveSigma * sigma / std::sqrt(requests));
  return lengths;
}

/// Returns the requests/s of an open loop that continues as long as needed; nullopt for other loads.
std::optional<double> steady_rate(const PointSpec& spec, double load) {
  if (spec.workload.duration.count() > 0) return {};
  const bool steady = std::holds_alternative<load::Poisson>(spec.workload.load) ||
                      std::holds_alternative<load::ConstantRate>(spec.workload.load);
  if (!steady) return {};
  return load > 0 ? load : load::load_value(spec.workload.load);
}

// Returns whether measured times are used: these may fall where the work grows.
bool has_residuals(const load::Scenario& scenario) {
  const model::Accelerator& a = *scenario.accelerator;
  if (a.kernels && scenario.engine->measured_kernels) return true;
  return std::any_of(a.coefficients.begin(), a.coefficients.end(),
                     [](const auto& c) { return c.residual != nullptr; }) ||
         std::any_of(a.pointwise_kinds.begin(), a.pointwise_kinds.end(),
                     [](const auto& kind) { return kind.second.residual != nullptr; });
}

// Returns the most rows of one step: by the batch limit, and by a pool in which each row needs the shortest prompt.
std::int64_t most_rows(const load::Scenario& scenario, double input_min) {
  const std::int64_t rows = std::min(sched::resolve_limits(scenario.policy).max_running, kMaxRows + 1);
  if (scenario.policy.prefix_caching.value_or(false)) return rows;  // prompts may share blocks
  const double pool = static_cast<double>(scenario.kv.blocks) * scenario.kv.block_tokens;
  return std::min(rows, std::max<std::int64_t>(1, static_cast<std::int64_t>(pool / input_min)));
}

/// The strictest limit on a quantile of the latency.
struct LateAllowed {
  double share = std::numeric_limits<double>::infinity();  // of requests that may be late; infinite: no such limit
  double limit = 0;                                        // seconds
};

// A quantile of n values lies between two of them. All values above it may be late, including the upper one of the two.
LateAllowed late_allowed(const sched::Slo& slo, double requests) {
  LateAllowed allowed;
  for (const sched::Slo::Bound& bound : slo.bounds) {
    if (bound.metric != sched::Slo::Metric::latency || bound.quantile < 0) continue;
    const double share = std::ceil((1 - bound.quantile) * (requests - 1)) / requests;
    if (share < allowed.share) allowed = {share, bound.limit};
  }
  return allowed;
}

// Returns whether another replica of this pool can never hurt.
bool helps_here(const PointSpec& spec) {
  const bool sticks = sched::router_info(spec.deployment.router).follows_content;
  // A batch that waits until it is full waits longer if fewer requests arrive. A batch of one never waits.
  const bool fills_batches =
      sched::traits_of(spec.policy).returns_at_batch_end && sched::resolve_limits(spec.policy).max_running > 1;
  return spec.deployment.is_fixed() && !fills_batches && !sticks && !shares_caches(spec.policy, spec.workload);
}

}  // namespace

Bounded beyond_rate(const Candidate& candidate, const std::optional<double>& most) {
  const double load = load::load_value(candidate.spec.workload.load);
  if (!most || !is_beyond(candidate.spec, load, *most)) return {};
  const auto unit = load_unit(candidate.spec.workload.load);
  return {fmt::format("carries at most {:.3g} of {:.4g} {}: full batches serve no more", *most, load, unit),
          load / *most};
}

// If another replica can never hurt, a fleet that passes proves that all larger ones pass, and one that fails proves
// that all smaller ones fail.
bool more_replicas_help(const PointSpec& spec) {
  return helps_here(spec) && (!spec.prefill || helps_here(*spec.prefill));
}

Bounds::Floor Bounds::floor_of(const Candidate& candidate) {
  const ResolvedPoint point = resolve_spec(candidate.spec);
  if (!point.scenario || has_residuals(*point.scenario)) return {};
  const load::Scenario& s = *point.scenario;
  if (s.engine->constant && s.engine->constant->batch) return {};
  const double context = lengths_of(s.workload, 1).input_min;
  const std::int64_t rows = most_rows(s, context);
  if (rows > kMaxRows) return {};
  const Key key{s.accelerator.get(),
                s.engine.get(),
                s.shape.get(),
                s.tp,
                s.pp,
                s.ep,
                static_cast<int>(s.weight_dtype),
                static_cast<int>(s.kv_dtype),
                rows,
                static_cast<std::int64_t>(context)};
  // Candidates that differ only in their number of replicas have the same floor.
  const auto known = floors_.find(key);
  if (known != floors_.end()) return known->second;
  model::ForwardCost cost(sim::cost_inputs(s));
  Floor floor{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  std::vector<model::PrefillSpan> spans;
  const double window = s.shape->sliding_window > 0 ? std::min<double>(context, s.shape->sliding_window) : context;
  // Finds the shortest step, and the shortest time per token, over all batch sizes: the step with the least time a row
  // is not always the fullest.
  for (std::int64_t r = 1; r <= rows; ++r) {
    spans.push_back({1, 0});
    const auto sum = static_cast<double>(r);
    const double decode = cost.decode_curve(r).time(sum * context, sum * window);
    const double prefill =
        cost.forward(
                {.prefill = spans, .decode_rows = 0, .decode_context = 0, .decode_context_windowed = 0, .sampled = r})
            .total();
    const double step = std::min(decode, prefill);
    floor.step = std::min(floor.step, step);
    floor.share = std::min(floor.share, step / sum);
  }
  floors_.emplace(key, floor);
  return floor;
}

Bounded Bounds::problem(const Candidate& candidate, double load) {
  const Floor floor = floor_of(candidate);
  if (!(floor.step > 0)) return {};
  const PointSpec& spec = candidate.spec;
  const auto n = static_cast<double>(std::max<std::int64_t>(1, spec.workload.requests));
  Lengths lengths = lengths_of(spec.workload, n);
  if (spec.prefill) {  // the first token may come from the prefill pool
    lengths.output_min -= 1;
    lengths.output_mean_low -= 1;
  }
  for (const sched::Slo::Bound& bound : spec.slo.bounds) {
    double least = floor.step;  // TPOT and ITL: one step
    if (bound.metric == sched::Slo::Metric::ttft) continue;
    if (bound.metric == sched::Slo::Metric::latency) least = lengths.output_min * floor.step;
    if (is_between_tokens(bound.metric) &&
        (lengths.output_min < (spec.prefill ? 1 : 2) || sched::traits_of(spec.policy).returns_at_batch_end))
      continue;
    // Reported values are rounded: ITL to the bins of a histogram, the others to nanoseconds.
    const double rounded = bound.metric == sched::Slo::Metric::itl ? kItlRounding : kRounding;
    if (least <= bound.limit * (1 + rounded)) continue;
    return {
        fmt::format(
            "at least {:.3g} s even on an idle machine, above the limit of {:.3g} s: the fastest step takes {:.3g} ms",
            least, bound.limit, 1e3 * floor.step),
        least / bound.limit};
  }
  const auto rate = steady_rate(spec, load);
  if (!rate) return {};
  // Requests sent during the warm-up do not count. In the worst case, exactly these are the late ones.
  const double unmeasured =
      std::ceil(*rate * spec.warmup.count() + kFourSigma * std::sqrt(*rate * spec.warmup.count()));
  const double measured = n - unmeasured;
  if (measured < 1) return {};
  const LateAllowed allowed = late_allowed(spec.slo, measured);
  if (allowed.share > 1 || !(lengths.output_mean_low > 0)) return {};
  const double capacity =
      spec.deployment.most_replicas() / (lengths.output_mean_low * floor.share);  // requests/s, upper bound
  // The last arrival may come later than on average; four standard deviations are allowed for.
  const double arrivals_end = n / *rate * (1 + kFourSigma / std::sqrt(n));
  const double late = (n - capacity * (arrivals_end + allowed.limit) - unmeasured) / measured;
  if (late <= allowed.share) return {};
  return {fmt::format("carries at most {:.3g} of {:.3g} requests/s: full batches give {:.4g} output tokens/s a replica",
                      capacity, *rate, 1 / floor.share),
          *rate / capacity};
}

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
#include "study/plan/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>

#include "load/load_kind.h"
#include "study/file/trace_store.h"
#include "study/plan/bounds.h"
#include "study/run/load_variation.h"

namespace plimsoll::study::plan {
namespace {

constexpr std::uint64_t kSeedStride = 1'000'003;  // keeps replications of neighbouring seeds apart
constexpr std::uint64_t kMaxSeed = (std::uint64_t{1} << 53U) - 1;

constexpr double kTurns = 30;                // requests per client of a closed loop
constexpr std::int64_t kMaxTurns = 400'000;  // limit on the requests of all clients
constexpr std::int64_t kLongerTrial = 10, kLongEnough = 10'000, kLongForRates = 40'000;  // requests

constexpr std::int64_t kLeastSampled = 1000;  // requests, unless the study states fewer

std::int32_t scaled(std::int32_t tokens, double scale) {
  return std::max<std::int32_t>(1, static_cast<std::int32_t>(std::lround(tokens * scale)));
}

std::shared_ptr<const traces::Trace> scaled(const std::shared_ptr<const traces::Trace>& trace, double scale) {
  return trace ? with_scaled_lengths(*trace, scale, scale) : nullptr;
}

void scale(load::LengthMarginal& lengths, double by) {
  if (auto* fixed = std::get_if<load::FixedLength>(&lengths)) fixed->tokens = scaled(fixed->tokens, by);
  if (auto* family = std::get_if<load::LengthDistribution>(&lengths)) {
    family->mean *= by;
    family->min = scaled(family->min, by);
    if (family->max > 0) family->max = scaled(family->max, by);
  }
}

// If the pairs are those of the replayed trace, they must remain so after scaling.
void scale_lengths(load::WorkloadSpec& workload, double by) {
  auto* const replay = std::get_if<load::TraceReplay>(&workload.load);
  auto* const pairs = std::get_if<load::TracePairs>(&workload.lengths);
  const bool same = replay != nullptr && pairs != nullptr && replay->trace == pairs->trace;
  if (replay != nullptr) replay->trace = scaled(replay->trace, by);
  if (pairs != nullptr) pairs->trace = same ? replay->trace : scaled(pairs->trace, by);
  if (auto* independent = std::get_if<load::IndependentLengths>(&workload.lengths)) {
    scale(independent->input, by);
    scale(independent->output, by);
  }
  if (load::Conversation* const talk = load::conversation_of(workload.load)) {
    scale(talk->added, by);
    scale(talk->result, by);
  }
}

bool has_rate(const load::LoadSpec& load) { return load::kind_of(load).load_class == load::LoadClass::open; }

void slow_clock(Deployment& deployment, double k) {
  const auto faster = [k](Nanos& time) { time = std::llround(static_cast<double>(time) / k); };
  if (auto& scaling = deployment.autoscaling) {
    for (auto* time :
         {&scaling->period, &scaling->in_time, &scaling->out_cooldown, &scaling->in_cooldown, &scaling->start_up})
      faster(*time);
    if (scaling->metric == sched::ScalingMetric::invocations) scaling->target *= k;  // a rate
  }
  faster(deployment.failures.mean_between);
  faster(deployment.failures.restart);
}

// If every step takes k times as long, the engine looks unchanged on a clock that is k times slower. On that clock,
// however, the outside world is k times faster.
void slow_clock(PointSpec& spec, double k) {
  if (has_rate(spec.workload.load)) spec = *with_load_value(spec, load::load_value(spec.workload.load) * k);
  if (auto* closed = std::get_if<load::ClosedLoop>(&spec.workload.load)) closed->think /= k;
  if (load::Conversation* const talk = load::conversation_of(spec.workload.load))
    for (load::Pause* const pause : {&talk->think, &talk->tool})
      for (double* const time : {&pause->mean, &pause->min, &pause->max}) *time /= k;
  spec.workload.duration /= k;
  spec.warmup /= k;
  spec.limits.timeout /= k;
  const auto faster = [k](Nanos& time) { time = std::llround(static_cast<double>(time) / k); };
  if (spec.policy.max_batch_delay) faster(*spec.policy.max_batch_delay);
  slow_clock(spec.deployment, k);
  if (spec.prefill) {
    PointSpec prefill = *spec.prefill;
    slow_clock(prefill.deployment, k);
    spec.prefill = std::make_shared<const PointSpec>(std::move(prefill));
    load::TransferConfig& transfer = spec.transfer;
    for (double* const time : {&transfer.launch_s, &transfer.descriptor_s}) *time /= k;
    for (double* const rate : {&transfer.bandwidth, &transfer.path}) *rate *= k;
    faster(transfer.hold);
    faster(transfer.hop);
  }
  for (sched::Slo::Bound& bound : spec.slo.bounds) bound.limit /= k;
  for (auto* rate : {&spec.slo.min_output_tokens_per_s, &spec.slo.min_requests_per_s, &spec.slo.min_goodput}) {
    if (*rate) **rate *= k;
  }
}

// Replaces the fleet by a part of it with its share of the load. With a balancing router, arrivals at one replica are
// more regular than the fleet's arrivals, because the replicas take turns. So arrivals at the part get the regularity
// of the fleet's arrivals over the same time. With a random router they stay random.
void take_part(PointSpec& spec, std::int32_t replicas) {
  const double part = static_cast<double>(replicas) / spec.deployment.replicas;
  load::LoadSpec& load = spec.workload.load;
  const double rate = load::load_value(load) * part, scv = load::gap_scv(load);
  const bool random = sched::router_info(spec.deployment.router).draws;
  const double part_scv = random ? 1 + part * (scv - 1) : part * scv;
  if (part_scv > 0)
    load = load::GammaArrivals{rate, std::sqrt(part_scv)};
  else
    load = load::ConstantRate{rate};
  const auto share = static_cast<std::int64_t>(std::ceil(part * static_cast<double>(spec.workload.requests)));
  spec.workload.requests = std::max(share, std::min(spec.workload.requests, kLeastSampled));
  spec.deployment.replicas = replicas;
  spec.deployment.instances.reset();
}

// Returns the clients of a closed loop, or the sessions that are open at a time; 0 for other loads.
double clients_of(const load::LoadSpec& load) {
  const bool closed = std::holds_alternative<load::ClosedLoop>(load) || std::holds_alternative<load::Sessions>(load);
  return closed ? load::load_value(load) : 0;
}

// Returns after how many requests the clients of a closed loop have spread out. Sessions also begin together, so
// several must have ended.
std::int64_t turns_of(const PointSpec& spec) {
  constexpr double kSessions = 3;
  const load::Conversation* const talk = load::conversation_of(spec.workload.load);
  const double turns = talk == nullptr ? kTurns : std::max(kTurns, kSessions * load::length_mean(talk->turns));
  return std::min<std::int64_t>(std::llround(turns * clients_of(spec.workload.load)), kMaxTurns);
}

// All clients start at once, and their first wave waits longer than any later one. So the wave must be a small part of
// the requests in a mean, and of those that a limit allows to be late.
std::int64_t long_turns_of(const PointSpec& spec) {
  const double clients = clients_of(spec.workload.load);
  if (clients == 0) return 0;
  constexpr double kOfAMean = 100, kOfTheLate = 3, kMaxRounds = 1000;
  double rounds = kTurns;
  for (const sched::Slo::Bound& bound : spec.slo.bounds) {
    rounds = std::max(rounds, bound.quantile < 0 ? kOfAMean : std::min(kMaxRounds, kOfTheLate / (1 - bound.quantile)));
  }
  return std::max(turns_of(spec), std::min<std::int64_t>(std::llround(rounds * clients), kMaxTurns));
}

}  // namespace

bool can_be_longer(const PointSpec& spec) {
  const load::LoadSpec& load = spec.workload.load;
  const load::Conversation* const talk = load::conversation_of(load);
  const bool endless = (talk != nullptr && talk->count == 0) || std::holds_alternative<load::ClosedLoop>(load) ||
                       std::holds_alternative<load::Poisson>(load) ||
                       std::holds_alternative<load::GammaArrivals>(load) ||
                       std::holds_alternative<load::ConstantRate>(load);
  return endless && spec.workload.duration.count() == 0;
}

bool can_be_sampled(const PointSpec& spec) {
  if (spec.prefill) return false;  // a part would have to keep the ratio of the two pools
  return can_be_longer(spec) && load::stationary_rate(spec.workload.load) && more_replicas_help(spec);
}

std::int32_t sampled_replicas(const PointSpec& spec, double part) {
  const std::int32_t all = spec.deployment.replicas,
                     some = std::max(2, static_cast<std::int32_t>(std::ceil(part * all)));
  return 2 * some <= all && can_be_sampled(spec) ? some : 0;
}

sched::PointMetrics of_whole_fleet(sched::PointMetrics metrics, double part) {
  const auto whole = [part](std::int64_t& count) { count = std::llround(static_cast<double>(count) / part); };
  whole(metrics.requests_completed);
  whole(metrics.requests_rejected);
  whole(metrics.requests_timed_out);
  whole(metrics.preemptions);
  whole(metrics.steady.requests_needed);
  for (auto& [code, count] : metrics.rejections) whole(count);
  for (double* const rate : {&metrics.requests_per_s, &metrics.output_tokens_per_s, &metrics.total_tokens_per_s,
                             &metrics.in_system_mean, &metrics.queue_mean})
    *rate /= part;
  if (metrics.output_tokens_per_s_ci95) *metrics.output_tokens_per_s_ci95 /= part;
  return metrics;
}

std::optional<PointSpec> with_requests(PointSpec spec, std::int64_t requests) {
  load::LoadSpec& load = spec.workload.load;
  if (auto* const replay = std::get_if<load::TraceReplay>(&load)) {
    if (!replay->trace || replay->trace->records.empty()) return {};
    const double rows = static_cast<double>(replay->trace->records.size());
    replay->tiles = static_cast<std::int32_t>(std::clamp(std::ceil(static_cast<double>(requests) / rows), 1.0, 1e6));
    spec.workload.requests = load::replayed_requests(*replay);  // whole tiles keep the trace's mean rate
  } else if (std::holds_alternative<load::ClosedLoop>(load) || load::stationary_rate(load) ||
             load::conversation_of(load) != nullptr) {
    spec.workload.requests = requests;
  } else {
    return {};
  }
  spec.workload.duration = Seconds(0);
  return spec;
}

bool keeps_rate(const sched::Slo& slo) {
  return slo.min_output_tokens_per_s || slo.min_requests_per_s || slo.min_goodput;
}

std::int64_t screening_requests(const PointSpec& spec) {
  const std::int64_t least = std::min(turns_of(spec), kLongEnough);
  return can_be_longer(spec) && least > spec.workload.requests ? least : 0;
}

std::int64_t confirming_requests(const PointSpec& spec) {
  if (!can_be_longer(spec)) return 0;
  if (keeps_rate(spec.slo) && !load::is_closed_loop(spec.workload.load))
    return std::max(spec.workload.requests, kLongForRates);
  return std::max(
      {spec.workload.requests, std::min(spec.workload.requests * kLongerTrial, kLongEnough), long_turns_of(spec)});
}

Trial first_trial(const PointSpec& spec, std::size_t candidate) {
  return {.candidate = candidate, .requests = screening_requests(spec)};
}

PointSpec trial_spec(PointSpec spec, const Trial& trial) {
  const std::uint64_t seed = spec.workload.seed + kSeedStride * static_cast<std::uint64_t>(trial.replication);
  spec.workload.seed = seed & kMaxSeed;
  if (trial.requests > 0) spec.workload.requests = trial.requests;
  const double load = (trial.load > 0 ? trial.load : load::load_value(spec.workload.load)) * trial.load_scale;
  if (auto varied = with_load_value(spec, load)) spec = std::move(*varied);
  if (trial.replicas > 0) take_part(spec, trial.replicas);
  if (trial.length_scale != 1) scale_lengths(spec.workload, trial.length_scale);
  if (trial.step_scale != 1) slow_clock(spec, trial.step_scale);
  return spec;
}

std::string trial_task(std::size_t question, const Trial& trial) {
  return fmt::format("{} {} {}", question, trial.candidate, trial_text(trial));
}

std::optional<TrialTask> read_trial_task(const std::string& text) {
  TrialTask task;
  Trial& t = task.trial;
  std::string word;
  std::istringstream words(text);
  words >> task.question >> t.candidate >> word >> t.replication >> t.requests >> t.load >> t.load_scale >>
      t.length_scale >> t.step_scale >> t.lives >> t.replicas;
  if (!words || word != "trial") return {};
  return task;
}

std::string trial_text(const Trial& trial) {
  return fmt::format("trial {} {} {} {} {} {} {} {}", trial.replication, trial.requests, trial.load, trial.load_scale,
                     trial.length_scale, trial.step_scale, trial.lives, trial.replicas);
}

}  // namespace plimsoll::study::plan

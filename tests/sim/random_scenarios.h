// SPDX-License-Identifier: Apache-2.0
// Random scenarios for every policy: loads, lengths, limits, routers, KV pressure.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/sim/scenarios.h"

namespace plimsoll::sim::testing {

using sched::PolicyKind;
using sched::PolicyVariant;

struct PolicyCase {
  PolicyKind policy;
  PolicyVariant variant;
};

inline const PolicyCase kPolicyCases[] = {
    {PolicyKind::none, PolicyVariant::standard},        {PolicyKind::static_batch, PolicyVariant::standard},
    {PolicyKind::dynamic, PolicyVariant::standard},     {PolicyKind::rolling, PolicyVariant::standard},
    {PolicyKind::rolling, PolicyVariant::contiguous},   {PolicyKind::orca, PolicyVariant::standard},
    {PolicyKind::tgi, PolicyVariant::standard},         {PolicyKind::tgi, PolicyVariant::tgi_v3},
    {PolicyKind::vllm_v0, PolicyVariant::standard},     {PolicyKind::vllm_v0, PolicyVariant::vllm_01},
    {PolicyKind::vllm_v0, PolicyVariant::vllm_chunked}, {PolicyKind::vllm_v1, PolicyVariant::standard},
    {PolicyKind::sarathi, PolicyVariant::standard},     {PolicyKind::trtllm, PolicyVariant::standard},
    {PolicyKind::sglang, PolicyVariant::standard},      {PolicyKind::llama_cpp, PolicyVariant::standard},
    {PolicyKind::llama_cpp, PolicyVariant::unified},
};

// Returns a random scenario. std::mt19937_64 is the same on every platform, and so are these few integer draws.
inline load::Scenario random_scenario(const PolicyCase& c, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % std::size(all)];
  };
  load::Scenario s = base_scenario();
  s.policy.policy = c.policy;
  s.policy.variant = c.variant;
  if (pick(0, 1) == 1) s.policy.max_running = pick(4, 16, 64);
  if (c.policy == PolicyKind::static_batch || c.policy == PolicyKind::dynamic) s.policy.batch_size = pick(1, 4, 9);
  if (c.policy == PolicyKind::dynamic && pick(0, 1) == 1) s.policy.delay_origin = sched::DelayOrigin::oldest_arrival;
  if (c.policy == PolicyKind::trtllm) {
    s.policy.capacity_policy = pick(sched::CapacityPolicy::guaranteed_no_evict, sched::CapacityPolicy::max_utilization,
                                    sched::CapacityPolicy::static_batch);
    s.policy.chunked = pick(0, 1) == 1;
  }
  if (c.policy == PolicyKind::vllm_v0 && pick(0, 1) == 1) {
    s.policy.preemption = sched::Preemption::swap;
    s.policy.swap_blocks = 100000;
  }
  if (c.policy == PolicyKind::orca)
    s.policy.reserve =
        pick(sched::Reserve::max_len, sched::Reserve::pow2, sched::Reserve::request_cap, sched::Reserve::oracle);
  if (pick(0, 1) == 1 && (c.policy == PolicyKind::vllm_v1 || c.policy == PolicyKind::sarathi))
    s.policy.step_token_budget = pick(64, 512);
  if (c.policy == PolicyKind::vllm_v1) s.policy.long_prefill_threshold = pick(0, 100);
  s.policy.model_max_len = 2048;
  s.kv.block_tokens = pick(1, 16, 16, 64);
  const std::int64_t tokens = pick(4096, 9000, 40000);  // the smallest holds two of the longest requests
  s.kv.blocks = tokens / s.kv.block_tokens;
  if (pick(0, 2) == 0) {
    auto windowed = small_shape();
    windowed->sliding_window = 200;
    s.shape = windowed;
  }
  const auto lengths = [&](double mean) {
    return load::LengthDistribution{load::LengthFamily::lognormal, mean, pick(0.3, 1.5), 1, 900};
  };
  s.workload.lengths = load::IndependentLengths{lengths(200), lengths(150)};
  s.workload.requests = 120;
  s.workload.seed = seed;
  switch (random() % 4) {
    case 0: s.workload.load = load::Poisson{pick(1.0, 5.0, 40.0)}; break;
    case 1: s.workload.load = load::ClosedLoop{pick(1, 8, 50), Seconds(pick(0.0, 0.3))}; break;
    case 2: s.workload.load = load::GammaArrivals{8, 3}; break;
    default: s.workload.load = load::Burst{120}; break;
  }
  s.replicas = pick(1, 1, 3);
  s.router = pick(sched::RouterKind::round_robin, sched::RouterKind::least_outstanding);
  if (pick(0, 2) == 0) {
    s.limits.timeout = Seconds(pick(1.0, 4.0));
    s.limits.cancel_on_timeout = pick(0, 1) == 1;
    s.limits.retries = pick(0, 1);
  }
  return s;
}

// Adds shared prefixes under KV pressure, a router that examines the replicas, a warm-up that ends within a leap or
// together with one, and coinciding times.
inline void make_harder(load::Scenario& s, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  if (random() % 2 == 0) {
    s.kv.prefix_caching = true;
    s.workload.prefix = {3, 64};
  }
  s.router = random() % 2 == 0 ? sched::RouterKind::least_kv : sched::RouterKind::prefix;
  s.warmup = Seconds(static_cast<double>(random() % 3));
  if (random() % 2 == 0)
    s.engine = constant_engine(0.003, 0.01);
  else if (random() % 2 == 0)
    s.engine = python_engine();
  if (random() % 2 == 0 && std::holds_alternative<load::Poisson>(s.workload.load))
    s.workload.load = load::ConstantRate{20};
  if (random() % 2 == 0) {  // requests wait for the tokens before them, or nearly so
    auto engine = std::make_shared<model::EngineProfile>(*s.engine);
    engine->host_stream = Seconds(random() % 2 == 0 ? 0.0005 : 0.005);
    s.engine = engine;
  }
}

// Lets replicas come and go within the few seconds that these runs take, often in the middle of a leap.
inline void add_life(Scenario& s, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % std::size(all)];
  };
  constexpr Nanos kSecond = 1'000'000'000;
  load::LifeConfig life{.initial = s.replicas, .slots_per_instance = pick(1, 2), .autoscaling = {}, .failures = {}};
  const int kind = pick(0, 1, 2);  // failures, autoscaling, both
  if (kind != 1)
    life.failures = {.mean_between = pick(1, 3, 9) * kSecond, .restart = pick(Nanos{0}, kSecond / 2, 2 * kSecond)};
  if (kind != 0) {
    sched::AutoscalingConfig scaling;
    s.replicas = scaling.max = s.replicas + pick(0, 1, 3);
    scaling.metric = pick(sched::ScalingMetric::concurrency, sched::ScalingMetric::invocations);
    scaling.target = scaling.metric == sched::ScalingMetric::concurrency ? pick(1, 4, 20) : pick(30, 120);
    scaling.period = pick(kSecond / 4, kSecond);
    scaling.out_points = pick(1, 3);
    scaling.in_time = pick(1, 4) * kSecond;
    scaling.out_cooldown = scaling.in_cooldown = pick(0, 2) * kSecond;
    scaling.start_up = pick(Nanos{0}, kSecond / 3, 2 * kSecond);
    life.autoscaling = scaling;
  }
  if (pick(0, 1) == 1) s.limits.retries = 3;
  s.life = life;
}

inline std::string case_name(const ::testing::TestParamInfo<PolicyCase>& info) {
  return std::string(sched::name(info.param.policy)) + "_" + std::to_string(static_cast<int>(info.param.variant));
}

}  // namespace plimsoll::sim::testing

// SPDX-License-Identifier: Apache-2.0
// Random deployments with pools for prefill and decode.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <random>

#include "load/pools.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::sim::testing {

using load::Scenario;

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// A prefill step takes 10 ms, a decode step 2 ms; a transfer takes 5 ms, whatever it sends.
inline load::TransferConfig five_ms() {
  load::TransferConfig transfer;
  transfer.bandwidth = transfer.source_rate = transfer.target_rate = kInfinite;
  transfer.launch_s = 5e-3;
  return transfer;
}

inline load::TransferConfig sglang_transfer() {
  load::TransferConfig transfer = five_ms();
  transfer.mode = load::TransferMode::push;
  transfer.overlap = load::TransferOverlap::chunk;
  transfer.first_token = load::FirstToken::prefill;
  transfer.load_failure = load::LoadFailure::fail;
  return transfer;
}

/// Puts a prefill pool of `prefills` replicas in front of `s`, which is otherwise the same.
inline Scenario with_pools(Scenario s, const load::TransferConfig& transfer, std::int32_t prefills = 1) {
  Scenario prefill = s;
  prefill.replicas = prefills;
  prefill.policy.role = sched::Role::prefill;
  load::Pools pools;
  pools.prefill = std::make_shared<const Scenario>(prefill);
  pools.transfer = transfer;
  s.pools = std::make_shared<const load::Pools>(pools);
  s.policy.role = sched::Role::decode;
  return s;
}

inline Scenario random_pools(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % std::size(all)];
  };
  Scenario s = base_scenario();
  s.policy.policy = pick(sched::PolicyKind::sglang, sched::PolicyKind::vllm_v1, sched::PolicyKind::trtllm);
  const bool sglang = s.policy.policy == sched::PolicyKind::sglang;
  const bool vllm = s.policy.policy == sched::PolicyKind::vllm_v1;
  s.policy.model_max_len = 2048;
  if (pick(0, 1) == 1) s.policy.max_running = pick(4, 16, 64);
  if (pick(0, 1) == 1) s.policy.step_token_budget = pick(256, 1024);
  if (!vllm && !sglang) s.policy.chunked = true;
  if (vllm) s.policy.async_scheduling = pick(0, 1) == 1;
  s.policy.reserved_decode_tokens = pick(16, 512);
  s.kv.block_tokens = sglang ? pick(1, 16) : 16;
  s.kv.blocks = pick(4096, 9000, 60000) / s.kv.block_tokens;
  const auto lengths = [&](double mean) {
    return load::LengthDistribution{load::LengthFamily::lognormal, mean, pick(0.3, 1.5), 1, 900};
  };
  s.workload.lengths = load::IndependentLengths{lengths(200), lengths(100)};
  s.workload.requests = 80;
  s.workload.seed = seed;
  switch (random() % 3) {
    case 0: s.workload.load = load::Poisson{pick(2.0, 10.0, 40.0)}; break;
    case 1: s.workload.load = load::ClosedLoop{pick(1, 8, 50), Seconds(pick(0.0, 0.3))}; break;
    default: s.workload.load = load::Burst{80}; break;
  }
  if (pick(0, 2) == 0) s.engine = constant_engine(0.004, 0.01);
  if (pick(0, 2) == 0) {
    s.kv.prefix_caching = true;
    s.workload.prefix = {3, 64};
  }
  if (pick(0, 2) == 0) {
    s.limits.timeout = Seconds(pick(0.5, 2.0));
    s.limits.cancel_on_timeout = pick(0, 1) == 1;
    s.limits.retries = pick(0, 1);
  }
  s.replicas = pick(1, 2, 3);
  s.router = pick(sched::RouterKind::round_robin, sched::RouterKind::least_kv);
  load::TransferConfig transfer = sglang ? sglang_transfer() : five_ms();
  if (!sglang && pick(0, 1) == 1) transfer.mode = load::TransferMode::push;
  if (!vllm) transfer.load_failure = load::LoadFailure::fail;
  if (!sglang && (!vllm || pick(0, 2) == 0)) transfer.first_token = load::FirstToken::prefill;
  transfer.overlap = pick(load::TransferOverlap::none, load::TransferOverlap::chunk, load::TransferOverlap::layer);
  transfer.layers = 32;
  transfer.launch_s = pick(0.0, 1e-3, 0.02);
  transfer.bytes_per_token = 1e6;
  transfer.source_rate = transfer.target_rate = pick(1e9, 2e10, kInfinite);
  transfer.hop = pick(0, 1'000'000);
  Scenario pooled = with_pools(s, transfer, pick(1, 2));
  if (!sglang && pick(0, 2) == 0) {
    load::Pools pools = *pooled.pools;
    pools.local = {.policy = load::LocalPrefill::Policy::uncached, .tokens = 100};
    pooled.pools = std::make_shared<const load::Pools>(pools);
  }
  return pooled;
}

inline sched::RouterKind any_router(std::mt19937_64& engine) {
  return static_cast<sched::RouterKind>(engine() % sched::router_names().size());
}

/// Pools behind any two routers, with caches that requests share: prefixes of groups, or sessions.
inline Scenario random_routed(std::uint64_t seed) {
  std::mt19937_64 random(seed ^ 0x5e55);
  Scenario s = random_pools(seed);
  s.replicas = static_cast<std::int32_t>(2 + random() % 3);
  s.router = any_router(random);
  if (random() % 2 == 0) s.router_options.temperature = 0.5;
  s.kv.prefix_caching = true;
  const load::Conversation talk{.turns = load::FixedLength{static_cast<std::int32_t>(1 + random() % 5)},
                                .added = load::FixedLength{60},
                                .think = {.family = load::PauseFamily::exponential, .mean = 0.2},
                                .tool_share = random() % 2 == 0 ? 0.5 : 0,
                                .tool = {.family = load::PauseFamily::fixed, .mean = 0.05},
                                .result = load::FixedLength{30},
                                .longest = 2000,
                                .count = 0};
  switch (random() % 3) {
    case 0: s.workload.prefix = {3, 64}; break;
    case 1:
      s.workload.prefix = {};
      s.workload.load = load::Sessions{talk, static_cast<std::int32_t>(1 + random() % 20)};
      break;
    default:
      s.workload.prefix = {};
      s.workload.load = load::SessionArrivals{talk, 5, 1};
      break;
  }
  load::Pools pools = *s.pools;
  Scenario prefill = *pools.prefill;
  prefill.router = any_router(random);
  prefill.replicas = static_cast<std::int32_t>(1 + random() % 4);
  prefill.router_options = s.router_options;
  prefill.kv.prefix_caching = random() % 4 != 0;
  prefill.workload = s.workload;
  pools.prefill = std::make_shared<const Scenario>(prefill);
  s.pools = std::make_shared<const load::Pools>(pools);
  return s;
}

/// Lets both pools follow the load.
inline void add_scaling(Scenario& s, std::uint64_t seed) {
  constexpr Nanos kSecond = 1'000'000'000;
  sched::AutoscalingConfig scaling;
  scaling.min = 1;
  scaling.max = 4;
  scaling.metric = sched::ScalingMetric::concurrency;
  scaling.target = 1.0 + static_cast<double>(seed % 5);
  scaling.period = kSecond / 5;
  scaling.out_points = 1;
  scaling.in_time = kSecond / 2;
  scaling.out_cooldown = scaling.in_cooldown = kSecond / 2;
  scaling.start_up = kSecond / 4;
  const auto scale = [&](Scenario& pool) {
    pool.life = load::LifeConfig{.initial = 1, .slots_per_instance = 2, .autoscaling = scaling, .failures = {}};
    pool.replicas = scaling.max;
  };
  scale(s);
  load::Pools pools = *s.pools;
  Scenario prefill = *pools.prefill;
  scale(prefill);
  pools.prefill = std::make_shared<const Scenario>(prefill);
  s.pools = std::make_shared<const load::Pools>(pools);
}

/// Lets replicas of both pools fail.
inline void add_failures(Scenario& s) {
  constexpr Nanos kSecond = 1'000'000'000;
  const load::FailureConfig failures{.mean_between = 2 * kSecond, .restart = kSecond / 2};
  s.life = load::LifeConfig{.initial = s.replicas, .slots_per_instance = 1, .autoscaling = {}, .failures = failures};
  load::Pools pools = *s.pools;
  Scenario prefill = *pools.prefill;
  prefill.life =
      load::LifeConfig{.initial = prefill.replicas, .slots_per_instance = 1, .autoscaling = {}, .failures = failures};
  prefill.workload.seed ^= 99;
  pools.prefill = std::make_shared<const Scenario>(prefill);
  s.pools = std::make_shared<const load::Pools>(pools);
}

}  // namespace plimsoll::sim::testing

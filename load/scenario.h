// SPDX-License-Identifier: Apache-2.0
// Everything on which one point depends, with all names and defaults resolved. Both backends run it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "load/fleet_life.h"
#include "load/pools.h"
#include "load/workload.h"
#include "model/accelerator.h"
#include "model/engine_profile.h"
#include "model/llm_shape.h"
#include "sched/metrics_collector.h"
#include "sched/policy_config.h"
#include "sched/router.h"

namespace plimsoll::load {

/// The longest run: a century. A time within it plus any delay still fits 64 bits.
inline constexpr Nanos kMaxRun = Nanos{3'155'760'000} * 1'000'000'000;
/// The most attempts that the requests of one point may make in total; more end the run with an error.
inline constexpr std::int64_t kMaxAttempts = 100'000'000;
/// The limit on failures, restarts and autoscaling periods; more end the run with an error.
inline constexpr std::int64_t kMaxLifeEvents = 100'000'000;

/// How clients react to slow or refused requests.
struct ClientLimits {
  Seconds timeout{0};              // from dispatch; 0: none
  bool cancel_on_timeout = false;  // false: the client gives up, but the slot stays busy
  std::int32_t retries = 0;        // further attempts after a rejection or a time-out
};

struct Scenario {
  std::shared_ptr<const model::LlmShape> shape;
  std::shared_ptr<const model::Accelerator> accelerator;
  std::shared_ptr<const model::Interconnect> interconnect;  // null if tp = pp = 1
  std::shared_ptr<const model::EngineProfile> engine;
  model::FrontEnd front_end = model::FrontEnd::none;
  model::DType weight_dtype = model::DType::fp16, kv_dtype = model::DType::fp16;
  std::int32_t tp = 1, pp = 1, ep = 1;
  std::int32_t replicas = 1;  // with `life`: the most that may run at once
  sched::RouterKind router = sched::RouterKind::round_robin;
  sched::RouterOptions router_options = {};
  sched::PolicyConfig policy;
  sched::KvConfig kv;  // per replica
  WorkloadSpec workload;
  OutputDrift drift = {};  // of simulated clients; a real engine drifts by itself
  ClientLimits limits;
  Seconds warmup{0};
  std::int32_t replications = 1;
  sched::Slo slo;
  model::TimeUncertainty uncertainty = {};  // uncertainty of predicted times, from which the band is computed
  bool stepwise = false;                    // run every step as an event of its own, without leaps
  std::optional<LifeConfig> life = {};      // replicas that come and go; none: a fixed fleet
  std::shared_ptr<const Pools> pools = {};  // a prefill pool in front of these replicas, which then decode; null: none
  /// Returns the number of replicas of all pools: those of this one, then those of the prefill pool.
  [[nodiscard]] std::size_t slots() const {
    return static_cast<std::size_t>(replicas + (pools ? pools->prefill->replicas : 0));
  }
};

}  // namespace plimsoll::load

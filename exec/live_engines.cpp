// SPDX-License-Identifier: Apache-2.0
#include "exec/live_engines.h"

#include <algorithm>
#include <thread>

#include "exec/available_memory.h"

namespace plimsoll::exec {

LiveEngines::LiveEngines(const EngineConfig& config, std::int32_t replicas, const WeightSource& weights) {
  const int threads = config.threads > 0 ? config.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // An equal share each: the first does not take yet what it will need for its KV cache.
  const double memory = config.device == DeviceKind::cpu ? available_memory().value_or(0) / replicas : 0;
  for (std::int32_t i = 0; i < replicas; ++i) {
    EngineConfig own = config;
    own.threads = std::max(1, threads / replicas + (i < threads % replicas ? 1 : 0));
    own.host_memory = memory;
    // Ranks that share a GPU share it with those of other replicas.
    if (config.communicator != CommunicatorKind::loopback) own.first_device = config.first_device + i * config.tp;
    engines_.push_back(std::make_unique<Engine>(own, weights));
    devices_.emplace_back(*engines_.back());
    replicas_.devices.push_back(&devices_.back());
  }
  replicas_.sequences = config.sequences;
}

}  // namespace plimsoll::exec

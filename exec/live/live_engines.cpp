// SPDX-License-Identifier: Apache-2.0
#include "exec/live/live_engines.h"

#include <unistd.h>

#include <algorithm>

#include "exec/engine.h"
#include "exec/gpu_placement.h"

namespace plimsoll::exec {

namespace {

// Returns the threads for one of the `locals` processes of a group on this host. If mpirun has bound each process to
// its own cores, the process sees only those.
int threads_here(const EngineConfig& config, int locals) {
  const int alone = thread_count(config);
  if (locals == 1 || config.threads > 0) return alone;
  const int host = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  return std::clamp(host / locals, 1, alone);
}

// Returns the bytes that each replica may allocate on this host: equal shares, fixed before any replica allocates its
// KV cache. All processes read the available memory before any of them allocates.
double memory_share(const EngineConfig& config, std::int32_t replicas, GroupPart* part) {
  if (config.device == DeviceKind::cpu && config.host_memory > 0) return config.host_memory / replicas;
  const double memory = config.device == DeviceKind::cpu ? available_memory().value_or(0) / replicas : 0;
  if (part == nullptr) return memory;
  try {
    part->meet();
  } catch (const PeerFailed&) {
    part->ranks(0).explain();
    throw;
  }
  return memory / part->locals();
}

}  // namespace

LiveEngines::LiveEngines(const EngineConfig& config, std::int32_t replicas, const WeightSource& weights,
                         GroupPart* part) {
  const int locals = part == nullptr ? 1 : part->locals();
  const int threads = threads_here(config, locals);
  const int ranks = part == nullptr ? config.tp : part->ranks(0).share(config.tp).count;
  int first = config.first_device;
  if (part != nullptr && config.device == DeviceKind::cuda)
    first = first_gpu_here(part->local(), locals, ranks * replicas);
  const double memory = memory_share(config, replicas, part);
  for (std::int32_t i = 0; i < replicas; ++i) {
    EngineConfig own = config;
    own.threads = std::max(1, threads / replicas + (i < threads % replicas ? 1 : 0));
    own.host_memory = memory;
    // With loopback, the ranks of all replicas share one GPU.
    own.first_device = config.communicator == CommunicatorKind::loopback ? first : first + i * ranks;
    engines_.push_back(
        std::make_unique<Engine>(own, weights, part == nullptr ? nullptr : &part->ranks(static_cast<std::size_t>(i))));
    replicas_.devices.push_back(engines_.back().get());
  }
  replicas_.sequences = config.sequences;
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// The engines of a measured point: one a replica, all of the same model.
#pragma once

#include <deque>
#include <memory>

#include "exec/engine_device.h"
#include "exec/live/serve.h"

namespace plimsoll::exec {

class LiveEngines {
 public:
  /// `config` is that of one replica, but its threads are those of all together; on GPUs replica i takes the devices
  /// after those of replica i - 1, or with loopback the same one. Throws as Engine does; memory is looked at for all
  /// together. With `part`, which outlives it, every replica has ranks in all processes of a group; threads, memory and
  /// GPUs are then this process's share of its host's.
  LiveEngines(const EngineConfig& config, std::int32_t replicas, const WeightSource& weights,
              GroupPart* part = nullptr);

  [[nodiscard]] const LiveReplicas& replicas() const { return replicas_; }
  [[nodiscard]] std::size_t size() const { return engines_.size(); }
  [[nodiscard]] Engine& engine(std::size_t replica) { return *engines_[replica]; }

 private:
  std::vector<std::unique_ptr<Engine>> engines_;
  std::deque<EngineDevice> devices_;
  LiveReplicas replicas_;
};

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// The engines of a measured point: one per replica, all of the same model.
#pragma once

#include <memory>
#include <vector>

#include "exec/engine.h"
#include "exec/live/measure_point.h"

namespace plimsoll::exec {

/// One engine for each replica, with weights loaded. Destroyed before others are made, since memory is planned for one
/// set.
class LiveEngines {
 public:
  /// `config` describes one replica, but its threads and memory are divided among all replicas. On GPUs, replica i uses
  /// the devices after those of replica i - 1; with loopback, all use one device. Throws as Engine does; memory is
  /// checked for all replicas together. With `part`, which must outlive the engines, every replica has ranks in all
  /// processes of a group. Threads, memory and GPUs are then this process's share of its host.
  LiveEngines(const EngineConfig& config, std::int32_t replicas, const WeightSource& weights,
              GroupPart* part = nullptr);

  [[nodiscard]] const LiveReplicas& replicas() const { return replicas_; }
  [[nodiscard]] std::size_t size() const { return engines_.size(); }
  [[nodiscard]] Engine& engine(std::size_t replica) { return *engines_[replica]; }

 private:
  std::vector<std::unique_ptr<Engine>> engines_;
  LiveReplicas replicas_;
};

}  // namespace plimsoll::exec

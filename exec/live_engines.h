// SPDX-License-Identifier: Apache-2.0
// The engines of a measured point: one a replica, all of the same model.
#pragma once

#include <deque>
#include <memory>

#include "exec/engine.h"
#include "exec/serve.h"

namespace plimsoll::exec {

class LiveEngines {
 public:
  /// `config` is that of one replica, but its threads are those of all together; on GPUs replica i takes the devices after
  /// those of replica i - 1, or with loopback the same one. Throws as Engine does; memory is looked at for all together.
  LiveEngines(const EngineConfig& config, std::int32_t replicas, const WeightSource& weights);

  [[nodiscard]] const LiveReplicas& replicas() const { return replicas_; }
  [[nodiscard]] std::size_t size() const { return engines_.size(); }
  [[nodiscard]] Engine& engine(std::size_t replica) { return *engines_[replica]; }

 private:
  class Device final : public ForwardDevice {
   public:
    explicit Device(Engine& engine) : engine_(engine) {}
    void start(const ForwardInput& input) override { engine_.start(input); }
    void finish(ForwardOutput& output) override { engine_.finish(output); }
    [[nodiscard]] std::vector<std::int64_t> recorded_decodes(std::int64_t rows) const override { return engine_.recorded_decodes(rows); }
    [[nodiscard]] std::int64_t bytes_per_block() const override { return engine_.bytes_per_block(); }
    void read_block(std::int32_t block, std::span<std::byte> host) override { engine_.read_block(block, host); }
    void write_block(std::int32_t block, std::span<const std::byte> host) override { engine_.write_block(block, host); }

   private:
    Engine& engine_;
  };

  std::vector<std::unique_ptr<Engine>> engines_;
  std::deque<Device> devices_;
  LiveReplicas replicas_;
};

}  // namespace plimsoll::exec

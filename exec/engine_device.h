// SPDX-License-Identifier: Apache-2.0
// An engine as the device that runs the steps of a live run.
#pragma once

#include "exec/engine.h"
#include "exec/forward_device.h"

namespace plimsoll::exec {

/// The engine outlives it.
class EngineDevice final : public ForwardDevice {
 public:
  explicit EngineDevice(Engine& engine) : engine_(engine) {}
  void start(const ForwardInput& input) override { engine_.start(input); }
  void finish(ForwardOutput& output) override { engine_.finish(output); }
  [[nodiscard]] std::vector<std::int64_t> recorded_decodes(std::int64_t rows) const override {
    return engine_.recorded_decodes(rows);
  }
  [[nodiscard]] std::int64_t bytes_per_block() const override { return engine_.bytes_per_block(); }
  void read_block(std::int32_t block, std::span<std::byte> host) override { engine_.read_block(block, host); }
  void write_block(std::int32_t block, std::span<const std::byte> host) override { engine_.write_block(block, host); }

 private:
  Engine& engine_;
};

}  // namespace plimsoll::exec

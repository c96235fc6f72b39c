// SPDX-License-Identifier: Apache-2.0
// The part of an Engine (engine.h) that a replica's worker uses. Tests replace it by small devices. One thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/forward_input.h"

namespace plimsoll::exec {

/// What runs forwards for the step builder: an engine, or a device of a test.
class ForwardDevice {
 public:
  virtual ~ForwardDevice() = default;
  /// At most two forwards are in flight; finish() ends the oldest. The input lives until then.
  virtual void start(const ForwardInput& input) = 0;
  virtual void finish(ForwardOutput& output) = 0;
  /// The sizes of decode forwards that the device records as graphs at their second run, up to the one that holds
  /// `rows` rows, ascending. Empty if the device records none.
  [[nodiscard]] virtual std::vector<std::int64_t> recorded_decodes(std::int64_t rows) const {
    static_cast<void>(rows);
    return {};
  }
  /// Between forwards: KV blocks to and from host memory.
  [[nodiscard]] virtual std::int64_t bytes_per_block() const = 0;
  virtual void read_block(std::int32_t block, std::span<std::byte> host) = 0;
  virtual void write_block(std::int32_t block, std::span<const std::byte> host) = 0;
};

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// The part of an Engine (engine.h) that a replica's worker uses. Tests substitute small devices. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/forward_input.h"

namespace plimsoll::exec {

/// Runs forwards for the step builder. Implemented by Engine, and by devices of tests.
class ForwardDevice {
 public:
  virtual ~ForwardDevice() = default;
  /// At most two forwards may be in flight; finish() ends the oldest. The input must stay valid until then.
  virtual void start(const ForwardInput& input) = 0;
  virtual void finish(ForwardOutput& output) = 0;
  /// Returns the sizes of decode forwards that the device records as graphs at their second run. They are ascending, up
  /// to the size that holds `rows` rows. Empty if the device records none.
  [[nodiscard]] virtual std::vector<std::int64_t> recorded_decodes(std::int64_t rows) const {
    static_cast<void>(rows);
    return {};
  }
  /// Returns the numbers of rows, ascending, whose first forward measures how to compute products, up to the one that
  /// covers `rows`. Empty if the device measures nothing.
  [[nodiscard]] virtual std::vector<std::int64_t> tuned_rows(std::int64_t rows) const {
    static_cast<void>(rows);
    return {};
  }
  /// Only between forwards: copies KV blocks, bytes_per_block() bytes each, to and from host memory.
  [[nodiscard]] virtual std::int64_t bytes_per_block() const = 0;
  virtual void read_block(std::int32_t block, std::span<std::byte> host) = 0;
  virtual void write_block(std::int32_t block, std::span<const std::byte> host) = 0;
  /// Copies blocks to host memory, to send them elsewhere. May run on a thread of its own while forwards run that do
  /// not write these blocks. One call at a time.
  virtual void send_blocks(std::span<const std::int32_t> blocks, std::span<std::byte> host) {
    const auto bytes = static_cast<std::size_t>(bytes_per_block());
    for (std::size_t i = 0; i < blocks.size(); ++i) read_block(blocks[i], host.subspan(i * bytes, bytes));
  }
};

}  // namespace plimsoll::exec

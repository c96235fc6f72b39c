// SPDX-License-Identifier: Apache-2.0
// What a replica's worker needs of an Engine (engine.h), so that tests can put something small in its place. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/forward_input.h"

namespace plimsoll::exec {

class ForwardDevice {
 public:
  virtual ~ForwardDevice() = default;
  /// At most two forwards are in flight; finish() ends the oldest. The input lives until then.
  virtual void start(const ForwardInput& input) = 0;
  virtual void finish(ForwardOutput& output) = 0;
  /// The rows of the decode forwards that the device records the second time that it runs them, up to those that `rows`
  /// rows take, ascending; none where it does not.
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

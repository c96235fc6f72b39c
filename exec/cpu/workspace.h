// SPDX-License-Identifier: Apache-2.0
// The buffers of a forward on the CPU. They grow and never shrink.
#pragma once

#include <array>
#include <cstdint>

#include "exec/backend.h"
#include "exec/cpu/host_memory.h"

namespace plimsoll::exec {

/// The buffers of a forward, f32 and row-major without gaps.
class Workspace {
 public:
  /// Reserves config.step_rows rows. Throws DeviceError if there is no memory for them.
  explicit Workspace(const BackendConfig& config);
  /// Makes room for `rows` rows (times experts per token in the buffers of experts). The content may be lost.
  void reserve(std::int64_t rows);
  /// Returns the rows of a buffer; valid until reserve() grows it.
  [[nodiscard]] float* operator[](Buffer buffer) const { return memory_[static_cast<std::size_t>(buffer)].as<float>(); }

 private:
  std::array<std::int64_t, kBuffers> width_{};  // floats per row of the forward
  std::array<HostMemory, kBuffers> memory_;
  std::int64_t rows_ = 0;
  bool poison_;
};

}  // namespace plimsoll::exec

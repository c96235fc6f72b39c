// SPDX-License-Identifier: Apache-2.0
// The buffers of a forward on one GPU: named rows of activations and the scratch memory of kernels. They grow and
// never shrink, and a forward uses no other memory.
#pragma once

#include <array>
#include <cstdint>

#include "exec/backend.h"
#include "exec/cuda/buffer.h"
#include "exec/cuda/kernels.h"

namespace plimsoll::exec::cuda {

class Workspace {
 public:
  /// `multiprocessors` and `ranks` bound the scratch memory of decode attention and of sampling.
  Workspace(const BackendConfig& config, int multiprocessors, int ranks);

  /// Allocates for a forward of that many rows and sampled rows. Unless has_room(), buffers move and lose their
  /// content, so the device must be idle.
  void reserve(std::int64_t rows, std::int64_t sampled);
  [[nodiscard]] bool has_room(std::int64_t rows, std::int64_t sampled) const {
    return rows <= rows_ && sampled <= sampled_;
  }

  [[nodiscard]] void* operator[](Buffer buffer) const { return buffers_[static_cast<std::size_t>(buffer)].get(); }
  /// Router and LM head logits are f32; everything else has the weights' type.
  [[nodiscard]] Element element(Buffer buffer) const;
  /// Returns the bytes of the largest buffer.
  [[nodiscard]] std::size_t largest() const;

  /// Returns the number of rotations that a model's layers use.
  [[nodiscard]] static std::size_t rotations(const BackendConfig& config);
  /// Returns the table of one of them.
  [[nodiscard]] float2* rope(std::size_t rotation) const;
  [[nodiscard]] const Routing& routing() const { return routing_; }
  [[nodiscard]] DecodeScratch decode_scratch() const;
  [[nodiscard]] float* least() const { return least_.as<float>(); }                        // [sampled]
  [[nodiscard]] std::uint64_t* best() const { return best_.as<std::uint64_t>(); }          // [sampled]
  [[nodiscard]] std::uint64_t* gathered() const { return gathered_.as<std::uint64_t>(); }  // [ranks][sampled]
  [[nodiscard]] std::int32_t* ids() const { return ids_.as<std::int32_t>(); }              // [sampled]

  /// Return the bytes of all buffers with the rope tables, and of the largest buffer, for that many rows and sampled
  /// rows.
  [[nodiscard]] static std::size_t bytes(const BackendConfig& config, std::int64_t rows, std::int64_t sampled);
  [[nodiscard]] static std::size_t largest(const BackendConfig& config, std::int64_t rows, std::int64_t sampled);

 private:
  [[nodiscard]] DeviceBuffer make(std::size_t bytes) const;
  void reserve_rows(std::int64_t rows);
  void reserve_sampled(std::int64_t sampled);

  BackendConfig config_;
  Element element_;
  int ranks_;
  std::int64_t rows_ = 0, sampled_ = 0;
  std::array<DeviceBuffer, kBuffers> buffers_;
  DeviceBuffer rope_, chosen_, weight_, place_, offsets_, partial_, arrived_, best_, least_, gathered_, ids_;
  Routing routing_;
};

}  // namespace plimsoll::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// The buffers of a forward on one GPU: named slots of rows and what kernels need besides. They grow and never shrink,
// and they are the only memory of a forward: kernels and products find all they need here.
#pragma once

#include <array>
#include <cstdint>

#include "exec/backend.h"
#include "exec/cuda/buffer.h"
#include "exec/cuda/kernels.h"

namespace plimsoll::exec::cuda {

class Workspace {
 public:
  /// `multiprocessors` and `ranks` bound the scratch of decode attention and of sampling.
  Workspace(const BackendConfig& config, int multiprocessors, int ranks);

  /// Room for a forward of so many rows and sampled rows. Unless has_room(), buffers move, and what was in them is
  /// gone: the device must be idle.
  void reserve(std::int64_t rows, std::int64_t sampled);
  [[nodiscard]] bool has_room(std::int64_t rows, std::int64_t sampled) const {
    return rows <= rows_ && sampled <= sampled_;
  }

  [[nodiscard]] void* operator[](Slot slot) const { return slots_[static_cast<std::size_t>(slot)].get(); }
  /// Router and LM head logits are f32, all else has the weights' type.
  [[nodiscard]] Element element(Slot slot) const;
  /// Bytes of the largest slot.
  [[nodiscard]] std::size_t largest() const;

  [[nodiscard]] float2* rope() const { return rope_.as<float2>(); }
  [[nodiscard]] const Routing& routing() const { return routing_; }
  [[nodiscard]] DecodeScratch decode_scratch(std::int64_t sequences) const;
  [[nodiscard]] std::uint64_t* best() const { return best_.as<std::uint64_t>(); }          // [sampled]
  [[nodiscard]] std::uint64_t* gathered() const { return gathered_.as<std::uint64_t>(); }  // [ranks][sampled]
  [[nodiscard]] std::int32_t* ids() const { return ids_.as<std::int32_t>(); }              // [sampled]

  /// Bytes of the slots and the rope table for so many rows and sampled rows; of the largest slot.
  [[nodiscard]] static std::size_t bytes(const BackendConfig& config, std::int64_t rows, std::int64_t sampled);
  [[nodiscard]] static std::size_t largest(const BackendConfig& config, std::int64_t rows, std::int64_t sampled);

 private:
  [[nodiscard]] DeviceBuffer make(std::size_t bytes) const;
  void reserve_rows(std::int64_t rows);
  void reserve_sampled(std::int64_t sampled);

  BackendConfig config_;
  Element element_;
  int multiprocessors_, ranks_;
  std::int64_t rows_ = 0, sampled_ = 0;
  std::array<DeviceBuffer, 13> slots_;
  DeviceBuffer rope_, chosen_, weight_, place_, offsets_, partial_, arrived_, best_, gathered_, ids_;
  Routing routing_;
};

}  // namespace plimsoll::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// What the ranks of a tensor-parallel group say to each other. One endpoint a rank; each is used by its rank's driver
// thread only, and all ranks call the same operations in the same order.
#pragma once

#include <cstdint>

#include "model/error.h"
#include "model/llm_shape.h"

namespace plimsoll::exec {

using Stream = void*;  // a cudaStream_t; null on the CPU, where operations return when they are done

/// Another rank has failed, and says why itself.
class PeerFailed : public DeviceError {
 public:
  PeerFailed() : DeviceError("another rank of the tensor-parallel group has failed") {}
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// data[i] becomes the sum over the ranks: the same bits on all of them. In f32 and in the order of ranks, by NCCL in
  /// an order of its own.
  virtual void all_reduce(void* data, std::int64_t elements, model::DType dtype, Stream stream) = 0;
  /// `out` becomes the `bytes` of rank 0, of rank 1, …
  virtual void all_gather(const void* in, void* out, std::int64_t bytes, Stream stream) = 0;
  virtual void barrier() = 0;
  /// Wakes ranks that wait and makes every later operation throw PeerFailed: one rank has failed.
  virtual void abort() = 0;
};

}  // namespace plimsoll::exec

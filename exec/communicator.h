// SPDX-License-Identifier: Apache-2.0
// Communication between the ranks of a tensor-parallel group. Each rank has one endpoint, which only its driver thread
// uses. All ranks call the same operations in the same order.
#pragma once

#include <cstdint>

#include "model/error.h"
#include "model/llm_shape.h"

namespace plimsoll::exec {

using Stream = void*;  // a cudaStream_t; null on the CPU, where operations are complete when they return

/// Another rank has failed; its own error states the reason.
class PeerFailed : public DeviceError {
 public:
  PeerFailed() : DeviceError("another rank of the tensor-parallel group has failed") {}
};

/// Collective calls of one rank: every rank makes the same calls in the same order, or all wait for ever.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// data[i] becomes its sum over the ranks, bit-identical on all of them. Sums are in f32 and in the order of ranks;
  /// NCCL chooses its own order.
  virtual void all_reduce(void* data, std::int64_t elements, model::DType dtype, Stream stream) = 0;
  /// `out` receives the `bytes` bytes of every rank, in order of ranks.
  virtual void all_gather(const void* in, void* out, std::int64_t bytes, Stream stream) = 0;
  /// Returns when all ranks have called it.
  virtual void barrier() = 0;
  /// Reports that one rank has failed: waiting ranks wake, and every later operation throws PeerFailed.
  virtual void abort() = 0;
};

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Groups of tensor-parallel ranks on GPUs, one driver thread per rank, in one process or (with NCCL) in several. No
// CUDA types here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exec/backend.h"

namespace plimsoll::exec::cuda {

/// A Communicator between GPUs.
class CudaCommunicator : public Communicator {
 public:
  /// Returns true if its operations may be captured in a CUDA graph.
  [[nodiscard]] virtual bool capturable() const = 0;
  /// Returns true if each rank has a GPU of its own.
  [[nodiscard]] virtual bool own_gpu() const = 0;
  /// Throws PeerFailed after abort(): results computed since then are invalid. Any thread.
  virtual void check_alive() const = 0;
};

/// Returns `size` ranks that share one GPU, each with its own streams, for tests and for trying tensor parallelism on
/// one GPU. Operations synchronise on the host, so every rank needs its own thread. Throws DeviceError.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_loopback_group(int size, int device);

/// Returns one rank per GPU, connected by NCCL. Short all-reduces use peer memory if all GPUs can access each other's.
/// Two ranks on one GPU need NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1. Throws DeviceError if NCCL or a GPU is
/// missing, or with more than kMaxRanks ranks.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_nccl_group(std::span<const int> devices);

/// Returns this process's ranks of a group that spans several processes. All messages use NCCL, because peer memory
/// does not reach other processes. Throws as above, and PeerFailed if another process failed before it joined.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_nccl_group(SpreadGroup group,
                                                                         std::span<const int> devices);

/// Returns the ranks of one process whose GPUs can access each other's memory (or that share one GPU). Messages hold up
/// to `capacity` bytes. Every rank reads the parts of all others and adds them in order of rank. Supports only
/// all_reduce and barrier.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_peer_group(std::span<const int> devices,
                                                                         std::size_t capacity);

[[nodiscard]] bool all_different(std::span<const int> devices);

}  // namespace plimsoll::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// Groups of tensor-parallel ranks on GPUs: one driver thread a rank, in one process or, by NCCL, in several. No CUDA
// types here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exec/backend.h"

namespace plimsoll::exec::cuda {

/// What endpoints on GPUs can do besides.
class CudaCommunicator : public Communicator {
 public:
  /// Whether its operations may become part of a CUDA graph.
  [[nodiscard]] virtual bool capturable() const = 0;
  /// Whether each rank has a GPU to itself.
  [[nodiscard]] virtual bool own_gpu() const = 0;
  /// Throws PeerFailed after abort(): what the GPU has done since is not to be believed. Any thread.
  virtual void check_alive() const = 0;
};

/// `size` ranks that share one GPU, each with its own streams: for tests and for trying out tensor parallelism without
/// the GPUs. Operations meet on the host, so every rank needs its own thread. Throws DeviceError.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_loopback_group(int size, int device);

/// A rank a GPU by NCCL; short all-reduces go through peer memory where all GPUs see each other's. Two ranks on one GPU
/// need NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1. Throws DeviceError where NCCL or a GPU is missing, or more than
/// kMostRanks.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_nccl_group(std::span<const int> devices);

/// One process's ranks of a group of several processes. All go through NCCL; peer memory does not reach over processes.
/// Throws as above, and PeerFailed where another process has failed before it joined.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_nccl_group(SpreadGroup group,
                                                                         std::span<const int> devices);

/// The ranks of one process whose GPUs see each other's memory (or share one GPU), for messages of up to `capacity`
/// bytes: every rank reads all others' parts and adds them up in the order of ranks. Only all_reduce and barrier.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_peer_group(std::span<const int> devices,
                                                                         std::size_t capacity);

[[nodiscard]] bool all_different(std::span<const int> devices);

}  // namespace plimsoll::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// Which rank runs on which GPU, for engines, communicators and reports.
#pragma once

#include <string>
#include <vector>

#include "exec/backend.h"

namespace plimsoll::exec {

struct RankPlaces {
  CommunicatorKind kind = CommunicatorKind::loopback;  // loopback or nccl
  std::vector<int> devices;                            // of each rank
};

/// The GPUs that a process sees.
struct VisibleGpus {
  int count = 0;
  bool shared = false;  // NCCL's ranks may share them
  bool chosen = false;  // chosen for this process alone
};

/// Places a group of `size` ranks from GPU `first` on. `automatic` means NCCL if every rank has a GPU, else loopback on
/// `first`. NCCL's ranks share the existing GPUs if they may. If not, GPUs beyond the existing ones are assigned too,
/// and make_cuda_group() reports the missing one.
[[nodiscard]] RankPlaces place_ranks(CommunicatorKind kind, int size, int first, const VisibleGpus& gpus);
/// The same for the GPUs of this machine. $NCCL_MULTI_RANK_GPU_ENABLE decides whether two ranks may share a GPU.
[[nodiscard]] RankPlaces place_ranks(CommunicatorKind kind, int size, int first);

/// Returns "tp 2 x 1 replica: 2 GPUs are needed, this machine has 1", or an empty text if `gpus` are enough.
[[nodiscard]] std::string too_few_gpus(int tp, int replicas, int gpus);

/// Returns the first of the `wanted` GPUs of process `local` of `locals` on a host. Processes take consecutive GPUs. If
/// there are enough for one process only, and each process was given its own, the result is GPU 0. Throws DeviceError
/// if there are too few.
[[nodiscard]] int first_gpu(int local, int locals, int wanted, const VisibleGpus& gpus);
/// Returns the same for the GPUs of this machine. If $CUDA_VISIBLE_DEVICES is set, each process was given its own.
[[nodiscard]] int first_gpu_here(int local, int locals, int wanted);

}  // namespace plimsoll::exec

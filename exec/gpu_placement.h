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

/// Places a group of `size` ranks from GPU `first` on, on a machine with `gpus`. `automatic` means NCCL if every rank
/// has a GPU, else loopback on `first`. With `two_a_gpu`, NCCL's ranks share the existing GPUs. Without it, GPUs beyond
/// `gpus` are assigned too, and make_cuda_group() reports the missing one.
[[nodiscard]] RankPlaces place_ranks(CommunicatorKind kind, int size, int first, int gpus, bool two_a_gpu);
/// The same for the GPUs of this machine. $NCCL_MULTI_RANK_GPU_ENABLE decides whether two ranks may share a GPU.
[[nodiscard]] RankPlaces place_ranks(CommunicatorKind kind, int size, int first);

/// Returns "tp 2 x 1 replica: 2 GPUs are needed, this machine has 1", or an empty text if `gpus` are enough.
[[nodiscard]] std::string too_few_gpus(int tp, int replicas, int gpus);

/// Returns the first of the `wanted` GPUs of process `local` of `locals` on a host with `gpus`. Processes take
/// consecutive GPUs. If there are enough for one process only, and `chosen` says that each process was given its own
/// GPUs, the result is GPU 0. Throws DeviceError if there are too few.
[[nodiscard]] int first_gpu(int local, int locals, int wanted, int gpus, bool chosen);
/// The same for the GPUs visible to this process; `chosen` means that $CUDA_VISIBLE_DEVICES is set.
[[nodiscard]] int first_gpu_here(int local, int locals, int wanted);

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Which rank runs on which GPU: one place that knows, for engines, for communicators and for what is said about them.
#pragma once

#include <string>
#include <vector>

#include "exec/backend.h"

namespace plimsoll::exec {

struct RankPlaces {
  CommunicatorKind kind = CommunicatorKind::loopback;  // loopback or nccl
  std::vector<int> devices;                            // of each rank
};

/// The places of one group of `size` ranks from GPU `first` on, where there are `gpus`. automatic takes NCCL where
/// there is a GPU a rank, else loopback on `first`. With `two_a_gpu` NCCL's ranks share what GPUs there are; without it
/// they are counted on, and make_cuda_group() names the one that is missing.
[[nodiscard]] RankPlaces place_ranks(CommunicatorKind kind, int size, int first, int gpus, bool two_a_gpu);
/// On the GPUs of this machine; $NCCL_MULTI_RANK_GPU_ENABLE says whether two ranks may share one.
[[nodiscard]] RankPlaces place_ranks(CommunicatorKind kind, int size, int first);

/// "tp 2 x 1 replica: 2 GPUs are needed, this machine has 1", or nothing where a machine with `gpus` has enough.
[[nodiscard]] std::string too_few_gpus(int tp, int replicas, int gpus);

/// The first of the `wanted` GPUs of process `local` of `locals` on a host with `gpus`: the next ones each. Where there
/// are too few for all but enough for one, and `chosen` says that somebody has chosen them for each process, it is the
/// first. Throws DeviceError where there are too few.
[[nodiscard]] int first_gpu(int local, int locals, int wanted, int gpus, bool chosen);
/// On the GPUs that this process sees; $CUDA_VISIBLE_DEVICES is how they are chosen.
[[nodiscard]] int first_gpu_here(int local, int locals, int wanted);

}  // namespace plimsoll::exec

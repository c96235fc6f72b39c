// SPDX-License-Identifier: Apache-2.0
#include "exec/gpu_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "model/error.h"

namespace plimsoll::exec {

RankPlaces place_ranks(CommunicatorKind kind, int size, int first, const VisibleGpus& gpus) {
  const int here = gpus.count - first;
  if (kind == CommunicatorKind::automatic) kind = size <= here ? CommunicatorKind::nccl : CommunicatorKind::loopback;
  RankPlaces places{.kind = kind, .devices = std::vector<int>(static_cast<std::size_t>(size), first)};
  if (kind == CommunicatorKind::loopback) return places;
  const int spread = gpus.shared && here > 0 ? std::min(size, here) : size;
  for (int rank = 0; rank < size; ++rank) places.devices[static_cast<std::size_t>(rank)] = first + rank % spread;
  return places;
}

RankPlaces place_ranks(CommunicatorKind kind, int size, int first) {
  const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return place_ranks(kind, size, first,
                     {.count = gpu_count(), .shared = shared != nullptr && std::string_view(shared) == "1"});
}

std::string too_few_gpus(int tp, int replicas, int gpus) {
  if (std::int64_t{tp} * replicas <= gpus) return {};
  return fmt::format("tp {} x {} replica{}: {} GPUs are needed, this machine has {}", tp, replicas,
                     replicas == 1 ? "" : "s", std::int64_t{tp} * replicas, gpus);
}

int first_gpu(int local, int locals, int wanted, const VisibleGpus& gpus) {
  if (locals * wanted <= gpus.count) return local * wanted;
  if (wanted <= gpus.count && gpus.chosen) return 0;
  throw DeviceError(fmt::format("too few GPUs: {} process{} on this host need{} {} each, and it has {}", locals,
                                locals == 1 ? "" : "es", locals == 1 ? "s" : "", wanted, gpus.count));
}

int first_gpu_here(int local, int locals, int wanted) {
  const int gpus = gpu_count();
  if (gpus == 0) return 0;  // using GPU 0 then fails and states the reason
  return first_gpu(local, locals, wanted, {.count = gpus, .chosen = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr});
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/cuda/gpu.h"

#include <cstdlib>

#include "exec/backend.h"
#include "model/error.h"
#include "tests/exec/reference_model.h"

namespace plimsoll::exec {

std::string gpu_problem() {
  static const std::string problem = []() -> std::string {
    BackendConfig config;
    config.architecture = tiny_model("llama");
    config.rank = model::rank_shape(config.architecture.shape, 1);
    config.step_rows = 8;
    // Some tests have two ranks on one GPU that wait for each other: every kernel must be loaded before.
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    try {
      (void)make_cuda_backend(config, nullptr, 0);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  }();
  return problem;
}

std::string nccl_problem(int ranks) {
  constexpr int kShares = 23'000;  // NCCL 2.30
  const int version = nccl_version();
  if (version == 0) return "no NCCL";
  if (gpu_count() >= ranks) return "";
  if (ranks > 2) return std::to_string(ranks) + " ranks of NCCL need more GPUs";
  const std::string name = std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100);
  if (version < kShares) return "NCCL " + name + " does not let two ranks share a GPU, 2.30 does";
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  return "";
}

}  // namespace plimsoll::exec

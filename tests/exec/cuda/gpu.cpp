// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/cuda/gpu.h"

#include "exec/backend.h"
#include "model/error.h"
#include "tests/exec/tiny_models.h"

namespace plimsoll::exec {

std::string gpu_problem() {
  static const std::string problem = []() -> std::string {
    BackendConfig config;
    config.architecture = tiny_model("llama");
    config.rank = model::rank_shape(config.architecture.shape, 1);
    config.step_rows = 8;
    try {
      (void)make_cuda_backend(config, nullptr, 0);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  }();
  return problem;
}

}  // namespace plimsoll::exec

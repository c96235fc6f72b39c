// SPDX-License-Identifier: Apache-2.0
// Replaces exec/cuda/ in a build without CUDA; CMakeLists.txt selects one of the two.
#include <fmt/format.h>

#include "exec/backend.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {

[[noreturn]] void no_cuda(std::string_view instead = kCpuOption) {
  throw DeviceError(
      fmt::format("built without CUDA: there was no nvcc or no NVIDIA driver when this program was built; "
                  "run ./plimsoll setup --cuda and build again, or run with {}",
                  instead));
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const BackendConfig&, Communicator*, int) { no_cuda(); }

int gpu_count() { return 0; }

void require_gpu(std::string_view instead) { no_cuda(instead); }

int nccl_version() { return 0; }

std::vector<std::unique_ptr<Communicator>> make_cuda_group(CommunicatorKind, std::span<const int>) { no_cuda(); }

std::vector<std::unique_ptr<Communicator>> make_cuda_group(SpreadGroup, std::span<const int>) { no_cuda(); }

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Finds GPUs, and implements this folder's entry points: make_cuda_backend and make_cuda_group of exec/backend.h.
#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "exec/cuda/buffer.h"
#include "exec/cuda/communicators.h"
#include "exec/cuda/cuda_backend.h"

namespace plimsoll::exec {

namespace cuda {

namespace {

constexpr int kOldestMajor = 8;  // compute capability 8: bf16 products and asynchronous copies need it

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// Throws a DeviceError that explains an error of cudaGetDeviceCount to the user; `instead` is the option that needs no
// GPU.
[[noreturn]] void explain(cudaError_t error, std::string_view instead) {
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  // Clear the error, which later calls would otherwise report as their own.
  static_cast<void>(cudaGetLastError());
  if (driver == 0)
    throw DeviceError(fmt::format("no CUDA driver: this machine has none loaded (libcuda.so.1); run with {}", instead));
  if (error == cudaErrorNoDevice)
    throw DeviceError(fmt::format("no GPU found: the CUDA driver sees none; run with {}", instead));
  if (error == cudaErrorInsufficientDriver) {
    throw DeviceError(fmt::format("CUDA driver too old: it supports CUDA {}, this program needs {}",
                                  version_text(driver), version_text(runtime)));
  }
  throw DeviceError(fmt::format("no GPU found: {}", cudaGetErrorString(error)));
}

// Ranks that share a GPU wait for each other in kernels. A kernel that is loaded at its first launch waits until the
// GPU is idle, which it then never is. CUDA reads this variable at the first call of the process.
void load_kernels_early_for_shared_gpus() {
  static const bool set = [] {
    if (std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") != nullptr) ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    return true;
  }();
  static_cast<void>(set);
}

void require(int device, std::string_view instead = kCpuOption) {
  load_kernels_early_for_shared_gpus();
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) explain(error, instead);
  if (count == 0) explain(cudaErrorNoDevice, instead);
  if (device < 0 || device >= count)
    throw DeviceError(fmt::format("GPU {} not found: there {} {}", device, count == 1 ? "is only" : "are only", count));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "reading the device's properties");
  if (properties.major < kOldestMajor) {
    throw DeviceError(fmt::format("{} is too old: compute capability {}.{}, {}.0 is needed", properties.name,
                                  properties.major, properties.minor, kOldestMajor));
  }
}

}  // namespace

bool all_different(std::span<const int> devices) {
  return std::set<int>(devices.begin(), devices.end()).size() == devices.size();
}

}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(const BackendConfig& config, Communicator* communicator, int device) {
  cuda::require(device);
  return std::make_unique<cuda::CudaBackend>(config, communicator, device);
}

int gpu_count() {
  cuda::load_kernels_early_for_shared_gpus();
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

void require_gpu(std::string_view instead) { cuda::require(0, instead); }

std::vector<std::unique_ptr<Communicator>> make_cuda_group(CommunicatorKind kind, std::span<const int> devices) {
  for (const int device : devices) cuda::require(device);
  if (kind == CommunicatorKind::loopback)
    return cuda::make_loopback_group(static_cast<int>(devices.size()), devices.front());
  return cuda::make_nccl_group(devices);
}

std::vector<std::unique_ptr<Communicator>> make_cuda_group(SpreadGroup group, std::span<const int> devices) {
  for (const int device : devices) cuda::require(device);
  return cuda::make_nccl_group(std::move(group), devices);
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Launches kernels. tests/exec/cuda/emulation/ has a header of this name for the CPU.
//
// A kernel is launched before the previous one of its stream has ended (programmatic dependent launch, sm_90 and
// later), so that it is ready when that one ends. Every kernel must therefore call begin_kernel() (device.cuh), or
// wait_for_previous_kernel(), before it reads what another kernel may write and before it writes anything. In each
// kernel at least one thread of the first block must wait, even if it has no work: by that the wait for one kernel is a
// wait for all before it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "exec/cuda/check.h"

namespace plimsoll::exec::cuda {

/// Returns whether the kernel's code for the current device waits by itself for the previous kernel. It does not if it
/// was compiled for an older generation. PLIMSOLL_CUDA_EARLY_START=off turns early starts off.
inline bool starts_early(const void* kernel) {
#if CUDART_VERSION >= 12030  // older ones cannot record it in a graph
  static const char* const kWanted = std::getenv("PLIMSOLL_CUDA_EARLY_START");
  if (kWanted != nullptr && std::string_view(kWanted) == "off") return false;
  int device = 0;
  check(cudaGetDevice(&device), "reading the current device");
  thread_local std::map<std::pair<int, const void*>, bool> known;
  const auto [at, is_new] = known.try_emplace({device, kernel});
  if (is_new) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "reading a kernel's attributes");
    at->second = attributes.ptxVersion >= 90;
  }
  return at->second;
#else
  return static_cast<void>(kernel), false;
#endif
}

/// Starts kernel(arguments...), checked. Requests shared memory beyond 48 KiB explicitly, as CUDA requires.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  const void* const code = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > 48 * 1024) {
    check(cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
          "requesting shared memory");
  }
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = starts_early(code) ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "starting a kernel");
}

}  // namespace plimsoll::exec::cuda

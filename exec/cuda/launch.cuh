// SPDX-License-Identifier: Apache-2.0
// Launches kernels. tests/exec/cuda/emulation/ has a header of this name for the CPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "exec/cuda/check.h"

namespace plimsoll::exec::cuda {

/// kernel<<<grid, block, shared bytes, stream>>>(arguments...), checked. Requests shared memory beyond 48 KiB
/// explicitly, as CUDA requires.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  if (shared_bytes > 48 * 1024) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "requesting shared memory");
  }
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), "starting a kernel");
}

}  // namespace plimsoll::exec::cuda

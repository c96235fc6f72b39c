// SPDX-License-Identifier: Apache-2.0
// exec/cuda/launch.cuh on the CPU.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/check.h"

namespace plimsoll::exec::cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  // The limits that every GPU from sm_80 on supports: shared memory and grid size.
  if (shared_bytes > 99 * 1024 || grid.y > 65535 || grid.z > 65535) check(cudaErrorInvalidValue, "starting a kernel");
  cuda_emulation::enqueue(stream, [=] {
    // The arguments are not memory of the device, so reading them is not reported.
    const auto thread = [&]() __attribute__((no_sanitize_thread)) {
      cuda_emulation::races::start_early();
      kernel(static_cast<Parameters>(arguments)...);
    };
    cuda_emulation::run_grid({grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, thread);
  });
}

}  // namespace plimsoll::exec::cuda

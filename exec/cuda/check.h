// SPDX-License-Identifier: Apache-2.0
// Checks the result of every CUDA runtime call. A failure becomes a DeviceError that says what was attempted.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "model/error.h"

namespace plimsoll::exec::cuda {

/// Throws DeviceError "GPU: <what>: <CUDA's message>" on failure.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // so that the next call does not report this error again
  throw DeviceError(std::string("GPU: ") + what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
                    ")");
}

}  // namespace plimsoll::exec::cuda

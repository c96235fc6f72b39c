// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA runtime goes through one of these; what fails becomes a DeviceError that says what was tried.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "model/error.h"

namespace plimsoll::exec::cuda {

/// Throws DeviceError "GPU: <what>: <CUDA's words>".
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // errors of one call do not stick to the next
  throw DeviceError(std::string("GPU: ") + what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
                    ")");
}

}  // namespace plimsoll::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// Selects the kernels for this machine.
#pragma once

#include <vector>

#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

/// Returns the fastest set that this machine can run, or the set named by the environment variable PLIMSOLL_CPU_ISA
/// (avx512, avx2, portable). Throws DeviceError if that name is unknown or this machine cannot run the set.
[[nodiscard]] const KernelSet& select_kernels();
/// Returns all sets that this machine can run, fastest first.
[[nodiscard]] std::vector<const KernelSet*> runnable_kernels();

}  // namespace plimsoll::exec

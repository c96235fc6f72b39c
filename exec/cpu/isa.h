// SPDX-License-Identifier: Apache-2.0
// Which kernels this machine can run.
#pragma once

#include <vector>

#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

/// The best set this machine runs, or the one that the environment variable PLIMSOLL_CPU_ISA names (avx512, avx2,
/// portable). Throws DeviceError for a name that is none or that this machine cannot run.
[[nodiscard]] const KernelSet& select_kernels();
/// All sets this machine runs, best first.
[[nodiscard]] std::vector<const KernelSet*> runnable_kernels();

}  // namespace plimsoll::exec

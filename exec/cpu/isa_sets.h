// SPDX-License-Identifier: Apache-2.0
// The kernel sets there are; which of them can run here: isa.h.
#pragma once

#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

extern const KernelSet kPortableKernels;
extern const KernelSet kAvx2Kernels;  // only with PLIMSOLL_X86
extern const KernelSet kAvx512Kernels;

}  // namespace plimsoll::exec

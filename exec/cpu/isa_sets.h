// SPDX-License-Identifier: Apache-2.0
// The compiled kernel sets. isa.h says which of them this machine can run.
#pragma once

#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

extern const KernelSet kPortableKernels;
extern const KernelSet kAvx2Kernels;  // only with PLIMSOLL_X86
extern const KernelSet kAvx512Kernels;

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/kernels_attention.h"
#include "exec/cpu/kernels_integer.h"
#include "exec/cpu/simd_avx2.h"

namespace plimsoll::exec {

// constinit: this file must not run code at start-up, because the machine may lack its instructions.
constinit const KernelSet kAvx2Kernels = kernel_set<Avx2>("avx2");
constinit const IntegerKernels kAvx2Integers = integer_set<Avx2>("avx2");

}  // namespace plimsoll::exec

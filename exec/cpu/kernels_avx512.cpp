// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/kernels_attention.h"
#include "exec/cpu/kernels_integer.h"
#include "exec/cpu/simd_avx512.h"

namespace plimsoll::exec {

// constinit: this file must not run code at start-up, because the machine may lack its instructions.
constinit const KernelSet kAvx512Kernels = kernel_set<Avx512>("avx512");
constinit const IntegerKernels kAvx512Integers = integer_set<Avx512>("avx512");

}  // namespace plimsoll::exec

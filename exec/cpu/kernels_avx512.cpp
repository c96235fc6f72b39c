// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/isa_sets.h"
#include "exec/cpu/kernels_attention.h"
#include "exec/cpu/simd_avx512.h"

namespace plimsoll::exec {

// Before any code of this file runs: it may be more than the machine can.
constinit const KernelSet kAvx512Kernels = kernel_set<Avx512>("avx512");

}  // namespace plimsoll::exec

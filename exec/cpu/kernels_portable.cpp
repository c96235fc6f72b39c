// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/kernels_attention.h"
#include "exec/cpu/kernels_integer.h"
#include "exec/cpu/simd_portable.h"

namespace plimsoll::exec {

constinit const KernelSet kPortableKernels = kernel_set<Portable>("portable");
constinit const IntegerKernels kPortableIntegers = integer_set<Portable>("portable");

}  // namespace plimsoll::exec

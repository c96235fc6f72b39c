// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/kernels_integer.h"
#include "exec/cpu/simd_avx512.h"

namespace plimsoll::exec {

namespace {

// One instruction multiplies pairs and adds them to the sums.
struct Vnni : Avx512 {
  static I dot(I sums, I a, I b) { return _mm512_dpwssd_epi32(sums, a, b); }
};

}  // namespace

// constinit: this file must not run code at start-up, because the machine may lack its instructions.
constinit const IntegerKernels kVnniIntegers = integer_set<Vnni>("avx512-vnni");

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels.h"
#include "exec/cpu/kernels_pairs.h"
#include "exec/cpu/simd_avx512.h"

namespace plimsoll::exec {

namespace {

// Words are pairs of bf16: adds the product of the upper halves to the sums, then that of the lower halves.
struct Pairs : Avx512 {
  static F fma(F a, F b, F sums) {
    return _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

}  // namespace

// constinit: this file must not run code at start-up, because the machine may lack its instructions.
constinit const ProductKernels kAvx512Pairs = pair_set<Pairs>("avx512-bf16");

}  // namespace plimsoll::exec

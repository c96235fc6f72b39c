// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/kernels_integer.h"
#include "exec/cpu/simd_avx512.h"

namespace plimsoll::exec {

namespace {

// One instruction multiplies pairs, or four bytes, and adds them to the sums. Few rows do not wait for arithmetic but
// for the weights; as bytes these need hardly any unpacking. More rows need the registers for their sums.
struct Vnni : Avx512 {
  static constexpr int kByteRows = 2;
  static I dot(I sums, I a, I b) { return _mm512_dpwssd_epi32(sums, a, b); }
  static I dot_bytes(I sums, I unsigned_bytes, I signed_bytes) {
    return _mm512_dpbusd_epi32(sums, unsigned_bytes, signed_bytes);
  }
  static I add_upper(I sums, I upper) { return _mm512_add_epi32(sums, _mm512_slli_epi32(upper, 8)); }
  template <int Part>
  static I nibble_bytes(I v) {
    return _mm512_and_si512(Part == 0 ? v : _mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
  }
};

}  // namespace

// constinit: this file must not run code at start-up, because the machine may lack its instructions.
constinit const IntegerKernels kVnniIntegers = integer_set<Vnni>("avx512-vnni");

}  // namespace plimsoll::exec

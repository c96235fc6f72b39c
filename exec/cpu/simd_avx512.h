// SPDX-License-Identifier: Apache-2.0
// Vectors of sixteen floats: AVX-512 F, BW, DQ and VL. The contract is in simd_portable.h. Included by
// kernels_avx512.cpp only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace plimsoll::exec {

struct Avx512 {
  static constexpr int kWidth = 16;
  static constexpr int kRows = 14;
  using F = __m512;

  static F set(float v) { return _mm512_set1_ps(v); }
  static F zero() { return _mm512_setzero_ps(); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static __mmask16 first_lanes(int count) { return static_cast<__mmask16>((1U << count) - 1U); }
  static F load_first(const float* p, int count) { return _mm512_maskz_loadu_ps(first_lanes(count), p); }
  static void store_first(float* p, F v, int count) { _mm512_mask_storeu_ps(p, first_lanes(count), v); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F select_less(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static F pow2(F n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }
  static F iota() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
  static float sum(F v) { return _mm512_reduce_add_ps(v); }
  static float highest(F v) { return _mm512_reduce_max_ps(v); }

  static void split_pair(F pairs, F& first, F& second) {
    const __m512i words = _mm512_castps_si512(pairs);
    first = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
    second = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }
  static F pair_of(F a, F b, bool high) {
    return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))
                                 : _mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  }
  static void transpose(F (&r)[16]) {
    F t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    // In the next step, r[4 i + j] has column 4 l + j of rows 4 i to 4 i + 3 in its 128-bit lane l.
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      r[i] = pair_of(t[i], t[i + 2], false);
      r[i + 1] = pair_of(t[i], t[i + 2], true);
      r[i + 2] = pair_of(t[i + 1], t[i + 3], false);
      r[i + 3] = pair_of(t[i + 1], t[i + 3], true);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const F even_low = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88),
              odd_low = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
      const F even_high = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
      const F odd_high = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
      t[j] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
      t[4 + j] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
      t[8 + j] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
      t[12 + j] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = t[i];
  }

  // ---- integers (kernels_integer.h) ----
  static constexpr int kIntegerRows = 16, kRegisters = 32, kSpareRegisters = 4, kByteRows = 0;
  using I = __m512i;
  static I load_ints(const void* p) { return _mm512_loadu_si512(p); }
  static I set_ints(std::int32_t v) { return _mm512_set1_epi32(v); }
  static I dot(I sums, I a, I b) {
    sums = _mm512_add_epi32(sums, _mm512_madd_epi16(a, b));
    asm("" : "+v"(sums));  // GCC would regroup the additions of a loop into a tree and run out of registers
    return sums;
  }
  template <int Part>
  static I nibbles(I v) {
    const I low = Part == 0 ? v : _mm512_srli_epi16(v, 4 * Part);
    return Part == 3 ? low : _mm512_and_si512(low, _mm512_set1_epi16(15));
  }
  template <int Part>
  static I bytes(I v) {
    return Part == 0 ? _mm512_and_si512(v, _mm512_set1_epi16(255)) : _mm512_srli_epi16(v, 8);
  }
  static I zero_pairs(const void* p) {
    const I zeros = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    return _mm512_or_si512(zeros, _mm512_slli_epi32(zeros, 23));
  }
  static F to_floats(I v) { return _mm512_cvtepi32_ps(v); }
  static F load_halves(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
};

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Vectors of eight floats: AVX2 and FMA. The contract is in simd_portable.h. Included by kernels_avx2.cpp only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace plimsoll::exec {

struct Avx2 {
  static constexpr int kWidth = 8;
  static constexpr int kRows = 6;
  using F = __m256;

  static F set(float v) { return _mm256_set1_ps(v); }
  static F zero() { return _mm256_setzero_ps(); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static __m256i first_lanes(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F load_first(const float* p, int count) { return _mm256_maskload_ps(p, first_lanes(count)); }
  static void store_first(float* p, F v, int count) { _mm256_maskstore_ps(p, first_lanes(count), v); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F select_less(F a, F b, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
  static F pow2(F n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  static F iota() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
  static float sum(F v) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
  static float highest(F v) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  }

  static void split_pair(F pairs, F& first, F& second) {
    const __m256i words = _mm256_castps_si256(pairs);
    first = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    second = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  }
  static void transpose(F (&r)[8]) {
    F t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    // In the next step, r[4 i + j] has column 4 l + j of rows 4 i to 4 i + 3 in its 128-bit lane l.
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      t[j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
      t[4 + j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = t[i];
  }

  // ---- integers (kernels_integer.h) ----
  static constexpr int kIntegerRows = 8, kRegisters = 16, kSpareRegisters = 3, kByteRows = 0;
  using I = __m256i;
  static I load_ints(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static I set_ints(std::int32_t v) { return _mm256_set1_epi32(v); }
  static I dot(I sums, I a, I b) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
    asm("" : "+x"(sums));  // GCC would regroup the additions of a loop into a tree and run out of registers
    return sums;
  }
  template <int Part>
  static I nibbles(I v) {
    const I low = Part == 0 ? v : _mm256_srli_epi16(v, 4 * Part);
    return Part == 3 ? low : _mm256_and_si256(low, _mm256_set1_epi16(15));
  }
  template <int Part>
  static I bytes(I v) {
    return Part == 0 ? _mm256_and_si256(v, _mm256_set1_epi16(255)) : _mm256_srli_epi16(v, 8);
  }
  static I zero_pairs(const void* p) {
    const I zeros = _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
    return _mm256_or_si256(zeros, _mm256_slli_epi32(zeros, 23));
  }
  static F to_floats(I v) { return _mm256_cvtepi32_ps(v); }
  static F load_halves(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
};

}  // namespace plimsoll::exec

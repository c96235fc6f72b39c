// SPDX-License-Identifier: Apache-2.0
// Vectors of four floats in the compiler's own vector type, for any machine. The kernels of kernels_*.h are written
// over such a type V; simd_avx2.h and simd_avx512.h provide the others. Requirements on V:
// - kWidth is the number of floats; kRows is the most rows of a product tile, two vectors wide, that needs no spilling.
// - A pair of bf16 vectors is stored interleaved: element i of the first is the lower half of word i.
//
// Use no name of the standard library here or in kernels_*.h: its inline functions would be compiled with the vector
// instructions of one file and then linked into all.
#pragma once

#include <cstdint>
#include <cstring>

namespace plimsoll::exec {

struct Portable {
  static constexpr int kWidth = 4;
  static constexpr int kRows = 6;
  using F = float __attribute__((vector_size(16)));
  using I = std::int32_t __attribute__((vector_size(16)));

  static F set(float v) { return F{v, v, v, v}; }
  static F zero() { return set(0); }
  static F load(const float* p) {
    F v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(float* p, F v) { std::memcpy(p, &v, sizeof v); }
  static F load_first(const float* p, int count) {
    F v = zero();
    for (int i = 0; i < count; ++i) v[i] = p[i];
    return v;
  }
  static void store_first(float* p, F v, int count) {
    for (int i = 0; i < count; ++i) p[i] = v[i];
  }
  static F fma(F a, F b, F c) { return a * b + c; }
  static F max(F a, F b) { return a > b ? a : b; }
  static F select_less(F a, F b, F yes, F no) { return a < b ? yes : no; }
  /// 2^n for whole n in [-126, 127].
  static F pow2(F n) {
    const I bits = (__builtin_convertvector(n, I) + 127) << 23;
    F v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
  }
  static F iota() { return F{0, 1, 2, 3}; }
  static float sum(F v) { return (v[0] + v[2]) + (v[1] + v[3]); }
  static float highest(F v) {
    const float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
  }

  static F from_bits(I bits) {
    F v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
  }
  /// Splits a vector of pairs into its two vectors.
  static void split_pair(F pairs, F& first, F& second) {
    I words;
    std::memcpy(&words, &pairs, sizeof words);
    first = from_bits(words << 16);
    second = from_bits(words & static_cast<std::int32_t>(0xffff0000));
  }
  /// Transposes: r[i][j] becomes r[j][i].
  static void transpose(F (&r)[4]) {
    const F low = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
            high = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const F low2 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
            high2 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(low, low2, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(low, low2, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(high, high2, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(high, high2, 2, 3, 6, 7);
  }

  // ---- integers (kernels_integer.h) ----
  static constexpr int kIntegerRows = 4, kRegisters = 16, kSpareRegisters = 4;
  /// Tiles of up to this many rows multiply bytes of activations, by dot_bytes(); 0: none.
  static constexpr int kByteRows = 0;
  static I load_ints(const void* p) {
    I v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static I set_ints(std::int32_t v) { return I{v, v, v, v}; }
  /// Adds to each 32-bit lane the products of its pairs of 16-bit numbers.
  static I dot(I sums, I a, I b) { return sums + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16); }
  /// Bits 4 Part to 4 Part + 3 of each 16-bit number, unsigned.
  template <int Part>
  static I nibbles(I v) {
    return (v >> (4 * Part)) & 0x000f000f;
  }
  /// Byte Part of each 16-bit number, unsigned.
  template <int Part>
  static I bytes(I v) {
    return (v >> (8 * Part)) & 0x00ff00ff;
  }
  /// Pairs (z, z << 7) of kWidth unsigned bytes.
  static I zero_pairs(const void* p) {
    std::uint8_t z[kWidth];
    std::memcpy(z, p, sizeof z);
    I v;
    for (int i = 0; i < kWidth; ++i) v[i] = z[i] | z[i] << 23;
    return v;
  }
  static F to_floats(I v) { return __builtin_convertvector(v, F); }
  /// kWidth numbers of 16 bits as in IEEE 754: sign, five exponent bits with a bias of 15, ten fraction bits.
  static F load_halves(const void* p) {
    std::uint16_t bits[kWidth];
    std::memcpy(bits, p, sizeof bits);
    F v;
    for (int i = 0; i < kWidth; ++i) {
      const int exponent = bits[i] >> 10 & 31, fraction = bits[i] & 1023;
      // Scales are finite and, but for zero, normal.
      const I normal = set_ints((exponent + 112) << 23 | fraction << 13);
      v[i] = exponent == 0 ? static_cast<float>(fraction) * 0x1p-24F : from_bits(normal)[0];
      if ((bits[i] & 0x8000) != 0) v[i] = -v[i];
    }
    return v;
  }
};

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Products of bf16 weights by instructions that multiply pairs of bf16, over a vector type V whose fma() is such an
// instruction. Rows are rounded to bf16 when they are packed. All else is as in kernels_gemm.h: a word of two adjacent
// k takes the place of a float.
#pragma once

#include "exec/cpu/kernels_gemm.h"

namespace plimsoll::exec {

// Rounds as to_bf16() of bf16.h does. Functions that are not templates are static here, so that the linker cannot merge
// those of different instruction sets (simd_portable.h). For the same reason this file must not use bf16.h.
static inline std::uint32_t pair_half(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return bits >> 16U | 0x40U;
  return (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
}

// Rounds x[from .. from + 2 count) to words, moved about as floats; numbers from k on are zero.
static inline void round_pairs(const float* x, std::int64_t k, std::int64_t from, std::int64_t count, float* words) {
  const std::int64_t left = (k - from) / 2, whole = left < count ? (left < 0 ? 0 : left) : count;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = from + 2 * i;
    std::uint32_t word = 0;
    if (i < whole)
      word = pair_half(x[at]) | pair_half(x[at + 1]) << 16U;
    else if (at < k)
      word = pair_half(x[at]);
    __builtin_memcpy(words + i, &word, sizeof word);
  }
}

// Packs as pack_rows() does, a chunk of k at a time.
template <class V>
void pack_pairs(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::int64_t tile_begin,
                std::int64_t tile_end, float* packed) {
  constexpr std::int64_t kChunk = 128;
  const std::int64_t words = (k + 31) / 32 * 16;
  const RowTiles<V> tiles(rows);
  float rounded[V::kRows * kChunk];
  for (std::int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const std::int64_t first = tiles.begin(tile);
    const int height = tiles.height(tile);
    for (std::int64_t from = 0; from < words; from += kChunk) {
      const std::int64_t count = words - from < kChunk ? words - from : kChunk;
      for (int row = 0; row < height; ++row)
        round_pairs(x + (first + row) * stride, k, 2 * from, count, rounded + row * count);
      pack_tile<V>(rounded, count, height, count, packed + first * words + from * height);
    }
  }
}

template <class V>
void pairs_gemm(const GemmTask& task) {
  if (task.rows > 0) Gemm<V, F32Panels<V>, float>(task, task.k * (2 * V::kWidth)).run();
}

template <class V>
constexpr ProductKernels pair_set(const char* name) {
  ProductKernels set;
  set.name = name;
  set.panel = 2 * V::kWidth;
  set.rows = V::kRows;
  set.pairs = true;
  set.pack_rows = pack_pairs<V>;
  set.gemm = pairs_gemm<V>;
  return set;
}

}  // namespace plimsoll::exec

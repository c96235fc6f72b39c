// SPDX-License-Identifier: Apache-2.0
// The steps of attention over one tile of tokens: scores, softmax weights, weighted sums of values.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels.h"
#include "exec/cpu/kernels_gemm.h"
#include "exec/cpu/kernels_pointwise.h"

namespace plimsoll::exec {

constexpr std::int64_t kTile = kAttentionTile;

// Values in the cache, found token by token. load() counts columns in pairs of vectors. bf16 values come two to a word,
// so the first vector of a pair has the even columns and the second the odd ones: column_of().
template <class V>
struct F32Rows {
  const void* const* rows;
  std::int64_t column;
  void load(std::int64_t k, int pair, typename V::F& a, typename V::F& b) const {
    const float* p = static_cast<const float*>(rows[k]) + column + pair * (2 * V::kWidth);
    a = V::load(p);
    b = V::load(p + V::kWidth);
  }
  template <int Pairs>
  void fetch(std::int64_t) const {}
  static std::int64_t column_of(std::int64_t place) { return place; }
};

template <class V>
struct Bf16Rows {
  const void* const* rows;
  std::int64_t column;
  void load(std::int64_t k, int pair, typename V::F& a, typename V::F& b) const {
    const std::uint16_t* p = static_cast<const std::uint16_t*>(rows[k]) + column + pair * (2 * V::kWidth);
    V::split_pair(V::load(reinterpret_cast<const float*>(p)), a, b);
  }
  template <int Pairs>
  void fetch(std::int64_t) const {}
  static std::int64_t column_of(std::int64_t place) {
    constexpr std::int64_t kPair = 2 * V::kWidth;
    return place / kPair * kPair + place % V::kWidth * 2 + place % kPair / V::kWidth;
  }
};

// The scratch memory of one task; columns = head_dim rounded up to two vectors.
template <class V>
struct AttentionScratch {
  float *keys, *scores, *out, *sum, *q, *highest, *rescale;
  std::int64_t columns;

  static std::int64_t columns_of(std::int64_t head_dim) {
    return (head_dim + 2 * V::kWidth - 1) / (2 * V::kWidth) * (2 * V::kWidth);
  }
  // Whole vectors come first, so they stay aligned. `rows` is the number for one head.
  AttentionScratch(float* at, std::int64_t heads, std::int64_t rows, std::int64_t head_dim)
      : columns(columns_of(head_dim)) {
    keys = at;
    scores = keys + head_dim * (2 * V::kWidth);
    out = scores + rows * kTile;
    sum = out + heads * rows * columns;
    q = sum + heads * rows * V::kWidth;
    highest = q + heads * rows * head_dim;
    rescale = highest + heads * rows;
  }
};

// scores[row, 0 .. 2 width) = q k, where the keys are one panel.
template <class V, int Rows>
void score_tile(const float* q, const float* keys, std::int64_t head_dim, float* scores) {
  typename V::F sums[Rows][2];
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) sums[row][0] = sums[row][1] = V::zero();
  multiply<V, Rows, 1, 1, Rows>(sums, q, F32Panels<V>{keys, 0}, 0, head_dim);
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
    V::store(scores + row * kTile, sums[row][0]);
    V::store(scores + row * kTile + V::kWidth, sums[row][1]);
  }
}

// The source of a panel's keys (2 width tokens), and the addresses to prefetch at the same time.
struct KeyPanel {
  const void* const* key;
  const void* const* keys_ahead;
  const void* const* values_ahead;
};

// Reads the dimensions [i, i + width) of half a panel's keys (twice as many of bf16): one vector per key, two for bf16.
// Reads whole vectors; see attention_padding.
template <class V, class Element>
[[gnu::always_inline]] inline void read_keys(const KeyPanel& panel, int half, std::int64_t i,
                                             typename V::F (&r)[V::kWidth]) {
  const int first = half * V::kWidth;
#pragma GCC unroll 16
  for (int j = 0; j < V::kWidth; ++j)
    r[j] = V::load(reinterpret_cast<const float*>(static_cast<const Element*>(panel.key[first + j]) + i));
#pragma GCC unroll 16
  for (int j = 0; j < V::kWidth; ++j) {
    // Prefetch to the second-level cache: a tile of this head and one of the next do not both fit the first level.
    __builtin_prefetch(static_cast<const Element*>(panel.keys_ahead[first + j]) + i, 0, 2);
    __builtin_prefetch(static_cast<const Element*>(panel.values_ahead[first + j]) + i, 0, 2);
  }
  V::transpose(r);
}

// Stores r as returned by read_keys, one dimension after the other, up to `dimensions`.
template <class V, class Element>
[[gnu::always_inline]] inline void store_keys(const typename V::F (&r)[V::kWidth], std::int64_t dimensions,
                                              std::int64_t stride, float* out) {
#pragma GCC unroll 16
  for (int j = 0; j < V::kWidth; ++j) {
    if constexpr (sizeof(Element) == sizeof(float)) {
      if (j < dimensions) V::store(out + j * stride, r[j]);
    } else {
      typename V::F even, odd;
      V::split_pair(r[j], even, odd);
      if (2 * j < dimensions) V::store(out + 2 * j * stride, even);
      if (2 * j + 1 < dimensions) V::store(out + (2 * j + 1) * stride, odd);
    }
  }
}

// sums += q k over the dimensions that r holds; q[dimension][Rows].
template <class V, int Rows, class Element>
[[gnu::always_inline]] inline void add_scores(const typename V::F (&r)[V::kWidth], const float* q,
                                              typename V::F (&sums)[Rows]) {
#pragma GCC unroll 16
  for (int j = 0; j < V::kWidth; ++j) {
    if constexpr (sizeof(Element) == sizeof(float)) {
#pragma GCC unroll 4
      for (int row = 0; row < Rows; ++row) sums[row] = V::fma(V::set(q[j * Rows + row]), r[j], sums[row]);
    } else {
      typename V::F even, odd;
      V::split_pair(r[j], even, odd);
#pragma GCC unroll 4
      for (int row = 0; row < Rows; ++row) {
        sums[row] = V::fma(V::set(q[2 * j * Rows + row]), even, sums[row]);
        sums[row] = V::fma(V::set(q[(2 * j + 1) * Rows + row]), odd, sums[row]);
      }
    }
  }
}

// For few rows, as in decoding: keys go through the registers straight into the sums, because a transposed copy would
// cost more than the products. The sums have the same bits as those of score_tile. Used only with vectors of sixteen
// floats. With eight it is faster on cached keys, but 6 to 14 % slower on keys from memory (Zen 4).
template <class V>
constexpr int kFewRows = V::kWidth >= 16 ? 4 : 0;
template <class V, int Rows, class Element>
void score_few(const float* q, const KeyPanel& panel, std::int64_t head_dim, float* scores) {
  constexpr std::int64_t kElements = V::kWidth * static_cast<int>(sizeof(float) / sizeof(Element));
  typename V::F sums[2][Rows], r[V::kWidth];
#pragma GCC unroll 4
  for (int row = 0; row < Rows; ++row) sums[0][row] = sums[1][row] = V::zero();
  const std::int64_t whole = head_dim / kElements * kElements;
  for (std::int64_t i = 0; i < whole; i += kElements) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      read_keys<V, Element>(panel, half, i, r);
      add_scores<V, Rows, Element>(r, q + i * Rows, sums[half]);
    }
  }
  // The last head dimensions, which do not fill a vector, go through memory.
  for (int half = 0; whole < head_dim && half < 2; ++half) {
    float rest[kElements * V::kWidth];
    read_keys<V, Element>(panel, half, whole, r);
    store_keys<V, Element>(r, head_dim - whole, V::kWidth, rest);
    for (std::int64_t i = whole; i < head_dim; ++i)
      for (int row = 0; row < Rows; ++row)
        sums[half][row] = V::fma(V::set(q[i * Rows + row]), V::load(rest + (i - whole) * V::kWidth), sums[half][row]);
  }
#pragma GCC unroll 4
  for (int row = 0; row < Rows; ++row) {
    V::store(scores + row * kTile, sums[0][row]);
    V::store(scores + row * kTile + V::kWidth, sums[1][row]);
  }
}

template <class V, class Element, int Rows = kFewRows<V>>
constexpr auto score_few_of(int rows) -> void (*)(const float*, const KeyPanel&, std::int64_t, float*) {
  if constexpr (Rows == 0)
    return nullptr;
  else
    return rows == Rows ? score_few<V, Rows, Element> : score_few_of<V, Element, Rows - 1>(rows);
}

// out[row, columns] = out * rescale[row] + p V over tokens [begin, end) of the tile.
template <class V, int Rows, int Pairs, class Values>
void value_tile(const float* scores, const float* rescale, const Values& values, std::int64_t begin, std::int64_t end,
                float* out, std::int64_t stride) {
  typename V::F sums[Rows][2 * Pairs];
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
    const typename V::F factor = V::set(rescale[row]);
#pragma GCC unroll 8
    for (int i = 0; i < 2 * Pairs; ++i) sums[row][i] = factor * V::load(out + row * stride + i * V::kWidth);
  }
  multiply<V, Rows, Pairs, kTile, 1>(sums, scores, values, begin, end);
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int i = 0; i < 2 * Pairs; ++i) V::store(out + row * stride + i * V::kWidth, sums[row][i]);
  }
}

template <class V, class Values, int Rows = V::kRows>
struct AttentionTiles {
  using Score = void (*)(const float*, const float*, std::int64_t, float*);
  using Value = void (*)(const float*, const float*, const Values&, std::int64_t, std::int64_t, float*, std::int64_t);
  static Score score(int rows) {
    return rows == Rows ? Score{score_tile<V, Rows>} : AttentionTiles<V, Values, Rows - 1>::score(rows);
  }
  // Processes `Pairs` pairs of vectors at once if they fit the registers.
  template <int Pairs>
  static Value value(int rows) {
    if (rows != Rows) return AttentionTiles<V, Values, Rows - 1>::template value<Pairs>(rows);
    if constexpr (pairs_for<V>(Rows) >= Pairs)
      return value_tile<V, Rows, Pairs, Values>;
    else
      return nullptr;
  }
};
template <class V, class Values>
struct AttentionTiles<V, Values, 0> {
  using Score = typename AttentionTiles<V, Values, 1>::Score;
  using Value = typename AttentionTiles<V, Values, 1>::Value;
  static Score score(int) { return nullptr; }
  template <int Pairs>
  static Value value(int) {
    return nullptr;
  }
};

// Turns one row's scores of a tile into weights; only [begin, end) count. `sum` is kept per lane.
template <class V, bool Masked>
[[gnu::always_inline]] inline void softmax_lanes(float* scores, std::int64_t begin, std::int64_t end, float& highest,
                                                 float* sum, float& rescale) {
  using F = typename V::F;
  constexpr int kVectors = static_cast<int>(kTile) / V::kWidth;
  F v[kVectors], top = V::set(highest);
#pragma GCC unroll 16
  for (int i = 0; i < kVectors; ++i) {
    v[i] = V::load(scores + i * V::kWidth);
    if constexpr (Masked) {
      const F nothing = V::set(-__builtin_inff()), index = V::iota() + V::set(static_cast<float>(i * V::kWidth));
      v[i] = V::select_less(index, V::set(static_cast<float>(end)), v[i], nothing);
      v[i] = V::select_less(index, V::set(static_cast<float>(begin)), nothing, v[i]);
    }
    top = V::max(top, v[i]);
  }
  const float raised = V::highest(top);
  F total = V::zero();
#pragma GCC unroll 16
  for (int i = 0; i < kVectors; ++i) {
    v[i] = exp<V>(v[i] - V::set(raised));
    V::store(scores + i * V::kWidth, v[i]);
    total = total + v[i];
  }
  rescale = 1;  // exactly e^0, the common case
  if (raised != highest) {
    float correction[V::kWidth];
    V::store(correction, exp<V>(V::set(highest - raised)));
    rescale = correction[0];
    highest = raised;
  }
  V::store(sum, V::fma(V::load(sum), V::set(rescale), total));
}

template <class V>
void softmax_row(float* scores, std::int64_t begin, std::int64_t end, float& highest, float* sum, float& rescale) {
  if (begin >= end) {  // the row sees no token of this tile
    for (std::int64_t i = 0; i < kTile; ++i) scores[i] = 0;
    rescale = 1;
  } else if (begin == 0 && end == kTile) {
    softmax_lanes<V, false>(scores, begin, end, highest, sum, rescale);
  } else {
    softmax_lanes<V, true>(scores, begin, end, highest, sum, rescale);
  }
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Attention of the queries of one KV head, with the softmax taken along the way (Milakov and Gimelshein 2018): per row a
// running maximum, a sum and an unnormalised output, rescaled when the maximum rises.
//
// Tokens are visited in tiles of kTile that begin at multiples of kTile in the sequence, whatever the pages. So a row's
// result depends on its query and its tokens only: not on block sizes or numbers, nor on the chunk it was computed in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cpu/kernels.h"
#include "exec/cpu/kernels_gemm.h"
#include "exec/cpu/kernels_pointwise.h"

namespace plimsoll::exec {

constexpr std::int64_t kTile = kAttentionTile;

// Rows of the cache, found token by token; Columns load() counts in pairs of vectors.
template <class V>
struct F32Rows {
  const void* const* rows;
  std::int64_t column;
  void load(std::int64_t k, int pair, typename V::F& a, typename V::F& b) const {
    const float* p = static_cast<const float*>(rows[k]) + column + pair * (2 * V::kWidth);
    a = V::load(p);
    b = V::load(p + V::kWidth);
  }
  void fetch(std::int64_t) const {}
};

template <class V>
struct Bf16Rows {
  const void* const* rows;
  std::int64_t column;
  void load(std::int64_t k, int pair, typename V::F& a, typename V::F& b) const {
    const std::uint16_t* p = static_cast<const std::uint16_t*>(rows[k]) + column + pair * (2 * V::kWidth);
    a = V::load_bf16(p);
    b = V::load_bf16(p + V::kWidth);
  }
  void fetch(std::int64_t) const {}
};

// Scratch of one task; columns = head_dim rounded up to two vectors.
template <class V>
struct AttentionScratch {
  float *q, *scores, *out, *keys, *highest, *sum, *rescale;
  std::int64_t columns;

  static std::int64_t columns_of(std::int64_t head_dim) {
    return (head_dim + 2 * V::kWidth - 1) / (2 * V::kWidth) * (2 * V::kWidth);
  }
  AttentionScratch(float* at, std::int64_t rows, std::int64_t head_dim) : columns(columns_of(head_dim)) {
    q = at;
    scores = q + rows * head_dim;
    out = scores + rows * kTile;
    keys = out + rows * columns;
    highest = keys + head_dim * (2 * V::kWidth);
    sum = highest + rows;
    rescale = sum + rows;
  }
};

// scores[row, 0 .. 2 width) = q k, with keys as one panel.
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

// out[row, columns] = out * rescale[row] + p V over the tokens [begin, end) of the tile.
template <class V, int Rows, class Values>
void value_tile(const float* scores, const float* rescale, const Values& values, std::int64_t begin, std::int64_t end,
                float* out, std::int64_t stride) {
  constexpr int kPairs = 1;
  typename V::F sums[Rows][2 * kPairs];
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
    const typename V::F factor = V::set(rescale[row]);
#pragma GCC unroll 8
    for (int i = 0; i < 2 * kPairs; ++i) sums[row][i] = factor * V::load(out + row * stride + i * V::kWidth);
  }
  multiply<V, Rows, kPairs, kTile, 1>(sums, scores, values, begin, end);
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int i = 0; i < 2 * kPairs; ++i) V::store(out + row * stride + i * V::kWidth, sums[row][i]);
  }
}

template <class V, class Values, int Rows = V::kRows>
struct AttentionTiles {
  using Score = void (*)(const float*, const float*, std::int64_t, float*);
  using Value = void (*)(const float*, const float*, const Values&, std::int64_t, std::int64_t, float*, std::int64_t);
  static Score score(int rows) {
    return rows == Rows ? Score{score_tile<V, Rows>} : AttentionTiles<V, Values, Rows - 1>::score(rows);
  }
  static Value value(int rows) {
    return rows == Rows ? Value{value_tile<V, Rows, Values>} : AttentionTiles<V, Values, Rows - 1>::value(rows);
  }
};
template <class V, class Values>
struct AttentionTiles<V, Values, 0> {
  using Score = typename AttentionTiles<V, Values, 1>::Score;
  using Value = typename AttentionTiles<V, Values, 1>::Value;
  static Score score(int) { return nullptr; }
  static Value value(int) { return nullptr; }
};

// One row's scores of a tile, of which [begin, end) count, become weights.
template <class V>
void softmax_row(float* scores, std::int64_t begin, std::int64_t end, float& highest, float& sum, float& rescale) {
  using F = typename V::F;
  constexpr int kVectors = static_cast<int>(kTile) / V::kWidth;
  const F nothing = V::set(-__builtin_inff());
  const F first = V::set(static_cast<float>(begin)), last = V::set(static_cast<float>(end));
  F v[kVectors], top = V::set(highest);
#pragma GCC unroll 16
  for (int i = 0; i < kVectors; ++i) {
    const F index = V::iota() + V::set(static_cast<float>(i * V::kWidth));
    v[i] = V::load(scores + i * V::kWidth);
    v[i] = V::select_less(index, first, nothing, V::select_less(index, last, v[i], nothing));
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
  float correction[V::kWidth];
  V::store(correction, exp<V>(V::set(highest - raised)));
  rescale = correction[0];
  sum = sum * rescale + V::sum(total);
  highest = raised;
}

template <class V, class Element, class Values>
class Attention {
 public:
  explicit Attention(const AttentionTask& task)
      : t_(task), rows_(task.positions * task.group), tiles_(rows_), s_(task.scratch, rows_, task.head_dim) {}

  void run() {
    load_queries();
    std::int64_t begin = t_.first[0], end = t_.last[0];
    for (std::int64_t i = 1; i < t_.positions; ++i) {
      begin = t_.first[i] < begin ? t_.first[i] : begin;
      end = t_.last[i] > end ? t_.last[i] : end;
    }
    for (std::int64_t token = begin / kTile * kTile; token < end; token += kTile) {
      const std::int64_t low = begin > token ? begin - token : 0;
      const std::int64_t high = end - token < kTile ? end - token : kTile;
      find_tokens(token, low, high);
      score(low, high);
      for (std::int64_t position = 0; position < t_.positions; ++position) softmax(position, token);
      add_values(low, high);
    }
    store_outputs();
  }

 private:
  void load_queries() {
    for (std::int64_t tile = 0; tile < tiles_.tiles; ++tile) {
      const std::int64_t first = tiles_.begin(tile);
      const int height = tiles_.height(tile);
      for (int r = 0; r < height; ++r) {
        const std::int64_t row = first + r;
        const float* q = t_.q + row / t_.group * t_.q_stride + row % t_.group * t_.head_dim;
        float* packed = s_.q + first * t_.head_dim + r;
        for (std::int64_t i = 0; i < t_.head_dim; ++i) packed[i * height] = q[i] * t_.scale;
      }
    }
    for (std::int64_t row = 0; row < rows_; ++row) {
      s_.highest[row] = -__builtin_inff();
      s_.sum[row] = 0;
    }
    for (std::int64_t i = 0; i < rows_ * s_.columns; ++i) s_.out[i] = 0;
  }

  void find_tokens(std::int64_t token, std::int64_t low, std::int64_t high) {
    for (std::int64_t i = 0; i < kTile; ++i) key_[i] = value_[i] = t_.zeros;
    for (std::int64_t i = low; i < high;) {
      const std::int64_t at = (token + i) % t_.wrap, block = at / t_.block_tokens, offset = at % t_.block_tokens;
      const Element* key = static_cast<const Element*>(t_.keys) + t_.blocks[block] * t_.block_stride + offset * t_.head_dim;
      std::int64_t count = t_.block_tokens - offset;
      count = t_.wrap - at < count ? t_.wrap - at : count;
      count = high - i < count ? high - i : count;
      for (std::int64_t j = 0; j < count; ++j, key += t_.head_dim) {
        key_[i + j] = key;
        value_[i + j] = key + t_.value_offset;
      }
      i += count;
    }
  }

  void score(std::int64_t low, std::int64_t high) {
    constexpr std::int64_t kPanel = 2 * V::kWidth;
    for (std::int64_t panel = low / kPanel * kPanel; panel < high; panel += kPanel) {
      transpose_keys(panel);
      for (std::int64_t tile = 0; tile < tiles_.tiles; ++tile) {
        const std::int64_t row = tiles_.begin(tile);
        AttentionTiles<V, Values>::score(tiles_.height(tile))(s_.q + row * t_.head_dim, s_.keys, t_.head_dim,
                                                              s_.scores + row * kTile + panel);
      }
    }
  }

  // Keys of 2 width tokens as a panel [head_dim][2 width]. Reads whole vectors: attention_padding.
  void transpose_keys(std::int64_t panel) {
    constexpr int kElements = V::kWidth * static_cast<int>(sizeof(float) / sizeof(Element));
    for (int half = 0; half < 2; ++half) {
      const void* const* key = key_ + panel + half * V::kWidth;
      for (std::int64_t i = 0; i < t_.head_dim; i += kElements) {
        typename V::F r[V::kWidth];
#pragma GCC unroll 16
        for (int j = 0; j < V::kWidth; ++j) r[j] = V::load(reinterpret_cast<const float*>(static_cast<const Element*>(key[j]) + i));
        V::transpose(r);
        const std::int64_t left = t_.head_dim - i < kElements ? t_.head_dim - i : kElements;
        store_keys(r, left, s_.keys + i * (2 * V::kWidth) + half * V::kWidth);
      }
    }
  }

  // r holds one dimension of all tokens a vector, or two neighbouring ones in bf16.
  static void store_keys(const typename V::F (&r)[V::kWidth], std::int64_t dimensions, float* out) {
    if constexpr (sizeof(Element) == sizeof(float)) {
      for (int j = 0; j < dimensions; ++j) V::store(out + j * (2 * V::kWidth), r[j]);
    } else {
      for (int j = 0; j < dimensions; j += 2) {
        typename V::F even, odd;
        V::split_pair(r[j / 2], even, odd);
        V::store(out + j * (2 * V::kWidth), even);
        if (j + 1 < dimensions) V::store(out + (j + 1) * (2 * V::kWidth), odd);
      }
    }
  }

  void softmax(std::int64_t position, std::int64_t token) {
    const std::int64_t begin = t_.first[position] > token ? t_.first[position] - token : 0;
    const std::int64_t end = t_.last[position] - token < kTile ? t_.last[position] - token : kTile;
    for (std::int64_t row = position * t_.group; row < (position + 1) * t_.group; ++row) {
      float* scores = s_.scores + row * kTile;
      if (begin < end) {
        softmax_row<V>(scores, begin, end, s_.highest[row], s_.sum[row], s_.rescale[row]);
      } else {                         // sees nothing of this tile
        for (std::int64_t i = 0; i < kTile; ++i) scores[i] = 0;
        s_.rescale[row] = 1;
      }
    }
  }

  void add_values(std::int64_t low, std::int64_t high) {
    for (std::int64_t tile = 0; tile < tiles_.tiles; ++tile) {
      const std::int64_t row = tiles_.begin(tile);
      const auto value = AttentionTiles<V, Values>::value(tiles_.height(tile));
      for (std::int64_t column = 0; column < s_.columns; column += 2 * V::kWidth) {
        value(s_.scores + row * kTile, s_.rescale + row, Values{value_, column}, low, high,
              s_.out + row * s_.columns + column, s_.columns);
      }
    }
  }

  void store_outputs() {
    for (std::int64_t row = 0; row < rows_; ++row) {
      float* out = t_.out + row / t_.group * t_.out_stride + row % t_.group * t_.head_dim;
      const float scale = s_.sum[row] > 0 ? 1 / s_.sum[row] : 0.0F;
      const float* sums = s_.out + row * s_.columns;
      for (std::int64_t i = 0; i < t_.head_dim; ++i) out[i] = sums[i] * scale;
    }
  }

  const AttentionTask& t_;
  std::int64_t rows_;
  RowTiles<V> tiles_;
  AttentionScratch<V> s_;
  const void* key_[kTile];
  const void* value_[kTile];
};

template <class V>
void attention(const AttentionTask& task) {
  if (task.positions * task.group == 0) return;
  if (task.bf16) Attention<V, std::uint16_t, Bf16Rows<V>>(task).run();
  else Attention<V, float, F32Rows<V>>(task).run();
}

template <class V>
constexpr KernelSet kernel_set(const char* name) {
  KernelSet set;
  set.name = name;
  set.panel = 2 * V::kWidth;
  set.rows = V::kRows;
  set.pack_rows = pack_rows<V>;
  set.gemm = gemm<V>;
  set.attention = attention<V>;
  set.norm = norm<V>;
  set.add = add<V>;
  set.add_scaled = add_scaled<V>;
  set.activate = activate<V>;
  set.activate_gated = activate_gated<V>;
  set.rope = rope<V>;
  set.to_bf16 = to_bf16<V>;
  set.argmax = argmax<V>;
  set.multiply_add = multiply_add<V>;
  set.read = read<V>;
  return set;
}

}  // namespace plimsoll::exec

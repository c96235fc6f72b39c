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
  template <int Pairs>
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
  template <int Pairs>
  void fetch(std::int64_t) const {}
};

// Scratch of one task; columns = head_dim rounded up to two vectors.
template <class V>
struct AttentionScratch {
  float *keys, *scores, *out, *sum, *q, *highest, *rescale;
  std::int64_t columns;

  static std::int64_t columns_of(std::int64_t head_dim) {
    return (head_dim + 2 * V::kWidth - 1) / (2 * V::kWidth) * (2 * V::kWidth);
  }
  // Whole vectors first: they stay aligned. `rows` are those of one head.
  AttentionScratch(float* at, std::int64_t heads, std::int64_t rows, std::int64_t head_dim) : columns(columns_of(head_dim)) {
    keys = at;
    scores = keys + head_dim * (2 * V::kWidth);
    out = scores + rows * kTile;
    sum = out + heads * rows * columns;
    q = sum + heads * rows * V::kWidth;
    highest = q + heads * rows * head_dim;
    rescale = highest + heads * rows;
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
  static Value value(int rows) {
    return rows == Rows ? Value{value_tile<V, Rows, 1, Values>} : AttentionTiles<V, Values, Rows - 1>::value(rows);
  }
  // Two pairs of vectors at once, where they fit.
  static Value wide_value(int rows) {
    if (rows != Rows) return AttentionTiles<V, Values, Rows - 1>::wide_value(rows);
    if constexpr (pairs_for<V>(Rows) >= 2) return value_tile<V, Rows, 2, Values>;
    else return nullptr;
  }
};
template <class V, class Values>
struct AttentionTiles<V, Values, 0> {
  using Score = typename AttentionTiles<V, Values, 1>::Score;
  using Value = typename AttentionTiles<V, Values, 1>::Value;
  static Score score(int) { return nullptr; }
  static Value value(int) { return nullptr; }
  static Value wide_value(int) { return nullptr; }
};

// One row's scores of a tile, of which [begin, end) count, become weights. `sum` is kept lane by lane.
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
  rescale = 1;                         // e^0 to the bit, and the common case
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
  if (begin >= end) {                  // sees nothing of this tile
    for (std::int64_t i = 0; i < kTile; ++i) scores[i] = 0;
    rescale = 1;
  } else if (begin == 0 && end == kTile) {
    softmax_lanes<V, false>(scores, begin, end, highest, sum, rescale);
  } else {
    softmax_lanes<V, true>(scores, begin, end, highest, sum, rescale);
  }
}

// The tokens of a tile as one head sees them. Those that are not there are zeros, which have no next head.
template <class Element>
struct TokenRows {
  const void* key[kTile];
  const void* value[kTile];
  std::int64_t step[kTile];            // elements to the same token of the next head

  void set(std::int64_t i, const Element* at, std::int64_t value_offset, std::int64_t head_stride) {
    key[i] = at;
    value[i] = at + value_offset;
    step[i] = head_stride;
  }
  void set_to_next_head_of(const TokenRows& rows) {
    for (std::int64_t i = 0; i < kTile; ++i) {
      step[i] = rows.step[i];
      key[i] = static_cast<const Element*>(rows.key[i]) + step[i];
      value[i] = static_cast<const Element*>(rows.value[i]) + step[i];
    }
  }
};

// Heads of a task are visited tile by tile: a block holds the keys of all heads behind each other, and memory is read in
// its order. Pages are too short for the hardware to foresee the next: while the keys of a head are transposed, keys and
// values of the next head are fetched, line for line. Decoding on Zen 4 goes from 12 to 24 GB/s with that.
template <class V, class Element, class Values>
class Attention {
 public:
  explicit Attention(const AttentionTask& task)
      : t_(task), rows_(task.positions * task.group), tiles_(rows_), s_(task.scratch, task.heads, rows_, task.head_dim),
        begin_(task.first[0]), end_(task.last[0]) {
    for (std::int64_t i = 1; i < t_.positions; ++i) {
      begin_ = t_.first[i] < begin_ ? t_.first[i] : begin_;
      end_ = t_.last[i] > end_ ? t_.last[i] : end_;
    }
  }

  void run() {
    load_queries();
    const std::int64_t start = begin_ / kTile * kTile;
    find_tokens(start, *now_);
    for (std::int64_t token = start; token < end_; token += kTile) {
      for (std::int64_t head = 0; head < t_.heads; ++head) {
        if (head + 1 < t_.heads) next_->set_to_next_head_of(*now_);
        else find_tokens(token + kTile, *next_);
        attend(head, token);
        TokenRows<Element>* const done = now_;
        now_ = next_;
        next_ = done;
      }
    }
    store_outputs();
  }

 private:
  std::int64_t query_offset(std::int64_t head, std::int64_t row, std::int64_t stride) const {
    return row / t_.group * stride + (head * t_.group + row % t_.group) * t_.head_dim;
  }

  void load_queries() {
    for (std::int64_t head = 0; head < t_.heads; ++head) {
      for (std::int64_t tile = 0; tile < tiles_.tiles; ++tile) {
        const std::int64_t first = tiles_.begin(tile);
        const int height = tiles_.height(tile);
        for (int r = 0; r < height; ++r) {
          const float* q = t_.q + query_offset(head, first + r, t_.q_stride);
          float* packed = s_.q + (head * rows_ + first) * t_.head_dim + r;
          for (std::int64_t i = 0; i < t_.head_dim; ++i) packed[i * height] = q[i] * t_.scale;
        }
      }
    }
    const std::int64_t rows = t_.heads * rows_;
    for (std::int64_t row = 0; row < rows; ++row) s_.highest[row] = -__builtin_inff();
    for (std::int64_t i = 0; i < rows * V::kWidth; ++i) s_.sum[i] = 0;
    for (std::int64_t i = 0; i < rows * s_.columns; ++i) s_.out[i] = 0;
  }

  void find_tokens(std::int64_t token, TokenRows<Element>& rows) const {
    const auto* const zeros = static_cast<const Element*>(t_.zeros);
    const std::int64_t high = high_of(token), low = low_of(token) < high ? low_of(token) : kTile;
    std::int64_t i = 0;
    for (; i < low; ++i) rows.set(i, zeros, 0, 0);
    while (i < high) {
      const std::int64_t at = (token + i) % t_.wrap, block = at / t_.block_tokens, offset = at % t_.block_tokens;
      const Element* key = static_cast<const Element*>(t_.keys) + t_.blocks[block] * t_.block_stride + offset * t_.head_dim;
      std::int64_t count = t_.block_tokens - offset;
      count = t_.wrap - at < count ? t_.wrap - at : count;
      count = high - i < count ? high - i : count;
      for (const std::int64_t stop = i + count; i < stop; ++i, key += t_.head_dim) rows.set(i, key, t_.value_offset, t_.head_stride);
    }
    for (; i < kTile; ++i) rows.set(i, zeros, 0, 0);
  }

  // Of the tile from `token` on, somebody sees [low, high).
  std::int64_t low_of(std::int64_t token) const { return begin_ > token ? begin_ - token : 0; }
  std::int64_t high_of(std::int64_t token) const { return end_ - token < kTile ? end_ - token : kTile; }

  void attend(std::int64_t head, std::int64_t token) {
    constexpr std::int64_t kPanel = 2 * V::kWidth;
    const std::int64_t low = low_of(token), high = high_of(token);
    for (std::int64_t panel = low / kPanel * kPanel; panel < high; panel += kPanel) {
      transpose_keys(panel);
      score(head, panel);
    }
    for (std::int64_t position = 0; position < t_.positions; ++position) softmax(head, position, token);
    add_values(head, low, high);
  }

  // Keys of 2 width tokens as a panel [head_dim][2 width]. Reads whole vectors: attention_padding.
  void transpose_keys(std::int64_t panel) {
    constexpr int kElements = V::kWidth * static_cast<int>(sizeof(float) / sizeof(Element));
    for (int half = 0; half < 2; ++half) {
      const void* const* key = now_->key + panel + half * V::kWidth;
      const void* const* keys_ahead = next_->key + panel + half * V::kWidth;
      const void* const* values_ahead = next_->value + panel + half * V::kWidth;
      for (std::int64_t i = 0; i < t_.head_dim; i += kElements) {
        typename V::F r[V::kWidth];
#pragma GCC unroll 16
        for (int j = 0; j < V::kWidth; ++j) {
          r[j] = V::load(reinterpret_cast<const float*>(static_cast<const Element*>(key[j]) + i));
          // Into the second-level cache: a tile of the next head and this one do not fit the first.
          __builtin_prefetch(static_cast<const Element*>(keys_ahead[j]) + i, 0, 2);
          __builtin_prefetch(static_cast<const Element*>(values_ahead[j]) + i, 0, 2);
        }
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

  void score(std::int64_t head, std::int64_t panel) {
    for (std::int64_t tile = 0; tile < tiles_.tiles; ++tile) {
      const std::int64_t row = tiles_.begin(tile);
      AttentionTiles<V, Values>::score(tiles_.height(tile))(s_.q + (head * rows_ + row) * t_.head_dim, s_.keys, t_.head_dim,
                                                            s_.scores + row * kTile + panel);
    }
  }

  void softmax(std::int64_t head, std::int64_t position, std::int64_t token) {
    const std::int64_t begin = t_.first[position] > token ? t_.first[position] - token : 0;
    const std::int64_t end = t_.last[position] - token < kTile ? t_.last[position] - token : kTile;
    for (std::int64_t row = position * t_.group; row < (position + 1) * t_.group; ++row) {
      const std::int64_t state = head * rows_ + row;
      softmax_row<V>(s_.scores + row * kTile, begin, end, s_.highest[state], s_.sum + state * V::kWidth, s_.rescale[row]);
    }
  }

  void add_values(std::int64_t head, std::int64_t low, std::int64_t high) {
    constexpr std::int64_t kPair = 2 * V::kWidth;
    for (std::int64_t tile = 0; tile < tiles_.tiles; ++tile) {
      const std::int64_t row = tiles_.begin(tile);
      const auto value = AttentionTiles<V, Values>::value(tiles_.height(tile));
      const auto wide = AttentionTiles<V, Values>::wide_value(tiles_.height(tile));
      for (std::int64_t column = 0; column < s_.columns;) {
        const bool two = wide != nullptr && column + 2 * kPair <= s_.columns;
        (two ? wide : value)(s_.scores + row * kTile, s_.rescale + row, Values{now_->value, column}, low, high,
                             s_.out + (head * rows_ + row) * s_.columns + column, s_.columns);
        column += two ? 2 * kPair : kPair;
      }
    }
  }

  void store_outputs() {
    for (std::int64_t head = 0; head < t_.heads; ++head) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        const std::int64_t state = head * rows_ + row;
        const float sum = V::sum(V::load(s_.sum + state * V::kWidth)), scale = sum > 0 ? 1 / sum : 0.0F;
        float* out = t_.out + query_offset(head, row, t_.out_stride);
        for (std::int64_t i = 0; i < t_.head_dim; ++i) out[i] = s_.out[state * s_.columns + i] * scale;
      }
    }
  }

  const AttentionTask& t_;
  std::int64_t rows_;                  // query rows of one head
  RowTiles<V> tiles_;
  AttentionScratch<V> s_;
  std::int64_t begin_, end_;           // what any of the positions attends to
  TokenRows<Element> found_[2];
  TokenRows<Element>* now_ = found_;
  TokenRows<Element>* next_ = found_ + 1;
};

template <class V>
void attention(const AttentionTask& task) {
  if (task.positions * task.group * task.heads == 0) return;
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

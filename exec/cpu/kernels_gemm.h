// SPDX-License-Identifier: Apache-2.0
// Products of packed rows with panels of weights. A tile of kRows rows by two vectors keeps all its sums in registers.
// A tile of few rows processes several panels at once instead, which also reads several streams from memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

// ---- sources of the right-hand side: load(k, pair) returns two vectors, fetch(k) prefetches later ones --------------

// Always inlined: GCC treats a function that only prefetches as one without effect.
[[gnu::always_inline]] inline void prefetch(const std::byte* line, bool far) {
  if (far)
    __builtin_prefetch(line, 0, 2);
  else
    __builtin_prefetch(line);
}

// Panels of weights, and what to prefetch meanwhile. Prefetching at an even rate lets memory and arithmetic work at the
// same time; the hardware's prefetcher alone does not keep enough lines in flight.
template <class V, class Element>
struct Panels {
  const Element* at;
  std::int64_t stride;  // elements from one panel to the next
  // A tile of one panel fetches fetch_at + k * fetch_step; a tile of several fetches `ahead` bytes ahead in each.
  const std::byte* fetch_at;
  std::int64_t fetch_step = 0, ahead = 0;
  bool far = false;

  static constexpr int kRow = 2 * V::kWidth, kRowBytes = kRow * static_cast<int>(sizeof(Element));
  Panels(const Element* first, std::int64_t between)
      : at(first), stride(between), fetch_at(reinterpret_cast<const std::byte*>(first)) {}

  template <int Pairs>
  [[gnu::always_inline]] void fetch(std::int64_t k) const {
    if constexpr (Pairs == 1) {
      const std::byte* const line = fetch_at + k * fetch_step;
      for (int i = 0; i < kRowBytes; i += 64) prefetch(line + i, far);
    } else {
#pragma GCC unroll 4
      for (int pair = 0; pair < Pairs; ++pair) {
        const std::byte* const line = reinterpret_cast<const std::byte*>(at + pair * stride + k * kRow) + ahead;
        for (int i = 0; i < kRowBytes; i += 64) prefetch(line + i, far);
      }
    }
  }
};

template <class V>
struct F32Panels : Panels<V, float> {
  using Panels<V, float>::Panels;
  void load(std::int64_t k, int pair, typename V::F& a, typename V::F& b) const {
    const float* p = this->at + pair * this->stride + k * (2 * V::kWidth);
    a = V::load(p);
    b = V::load(p + V::kWidth);
  }
};

template <class V>
struct Bf16Panels : Panels<V, std::uint16_t> {
  using Panels<V, std::uint16_t>::Panels;
  void load(std::int64_t k, int pair, typename V::F& a, typename V::F& b) const {
    const std::uint16_t* p = this->at + pair * this->stride + k * (2 * V::kWidth);
    V::split_pair(V::load(reinterpret_cast<const float*>(p)), a, b);
  }
};

// Sums of a tile of Rows x (2 Pairs) vectors: sums += x w over k, with x(row, k) = x[row * RowStride + k * KStride].
template <class V, int Rows, int Pairs, int RowStride, int KStride, class Weights>
[[gnu::always_inline]] inline void multiply(typename V::F (&sums)[Rows][2 * Pairs], const float* x,
                                            const Weights& weights, std::int64_t k_begin, std::int64_t k_end) {
  x += k_begin * KStride;
  for (std::int64_t k = k_begin; k < k_end; ++k, x += KStride) {
    typename V::F w[2 * Pairs];
    weights.template fetch<Pairs>(k);
#pragma GCC unroll 4
    for (int pair = 0; pair < Pairs; ++pair) weights.load(k, pair, w[2 * pair], w[2 * pair + 1]);
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const typename V::F value = V::set(x[row * RowStride]);
#pragma GCC unroll 8
      for (int i = 0; i < 2 * Pairs; ++i) sums[row][i] = V::fma(value, w[i], sums[row][i]);
    }
  }
}

// Returns how many pairs of vectors a tile with this number of rows processes at once.
template <class V>
constexpr int pairs_for(int rows) {
  const int fit = V::kRows / rows;
  return fit >= 4 ? 4 : fit >= 1 ? fit : 1;
}

// ---- linear layers ------------------------------------------------------------------------------------------

// Where a tile's results go in y, and the initial values of its sums.
struct TileOutput {
  float* y;
  std::int64_t stride;
  std::int64_t columns;  // valid columns, from y on
  const float* bias;     // bias of y's first column; null if none
  bool add;              // whether sums start from y
};

template <class V>
typename V::F load_columns(const float* p, std::int64_t columns) {
  if (columns >= V::kWidth) return V::load(p);
  return columns > 0 ? V::load_first(p, static_cast<int>(columns)) : V::zero();
}

template <class V>
void store_columns(float* p, typename V::F value, std::int64_t columns) {
  if (columns >= V::kWidth)
    V::store(p, value);
  else if (columns > 0)
    V::store_first(p, value, static_cast<int>(columns));
}

template <class V, int Rows, int Pairs, class Weights>
void gemm_tile(const float* x, const Weights& weights, std::int64_t k, const TileOutput& out) {
  // All loops over Rows and Pairs are unrolled, so that the sums stay in registers.
  typename V::F sums[Rows][2 * Pairs];
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int i = 0; i < 2 * Pairs; ++i) {
      const std::int64_t column = i * V::kWidth, left = out.columns - column;
      typename V::F sum = out.add ? load_columns<V>(out.y + row * out.stride + column, left) : V::zero();
      if (out.bias != nullptr) sum = sum + load_columns<V>(out.bias + column, left);
      sums[row][i] = sum;
    }
  }
  multiply<V, Rows, Pairs, 1, Rows>(sums, x, weights, 0, k);
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int i = 0; i < 2 * Pairs; ++i) {
      const std::int64_t column = i * V::kWidth;
      store_columns<V>(out.y + row * out.stride + column, sums[row][i], out.columns - column);
    }
  }
}

template <class V, class Weights>
using GemmTile = void (*)(const float*, const Weights&, std::int64_t, const TileOutput&);

// one(rows) processes one panel; many(rows) processes as many panels as pairs_for(rows) returns.
template <class V, class Weights, int Rows = V::kRows>
struct GemmTiles {
  static GemmTile<V, Weights> one(int rows) {
    if (rows == Rows) return gemm_tile<V, Rows, 1, Weights>;
    return GemmTiles<V, Weights, Rows - 1>::one(rows);
  }
  static GemmTile<V, Weights> many(int rows) {
    if (rows == Rows) return gemm_tile<V, Rows, pairs_for<V>(Rows), Weights>;
    return GemmTiles<V, Weights, Rows - 1>::many(rows);
  }
};
template <class V, class Weights>
struct GemmTiles<V, Weights, 0> {
  static GemmTile<V, Weights> one(int) { return nullptr; }
  static GemmTile<V, Weights> many(int) { return nullptr; }
};

// Tiles of nearly equal height: [rows tile / tiles, rows (tile + 1) / tiles).
template <class V>
struct RowTiles {
  std::int64_t rows, tiles;
  explicit RowTiles(std::int64_t m) : rows(m), tiles((m + V::kRows - 1) / V::kRows) {}
  std::int64_t begin(std::int64_t tile) const { return rows * tile / tiles; }
  int height(std::int64_t tile) const { return static_cast<int>(begin(tile + 1) - begin(tile)); }
};

template <class V, class Weights, class Element>
class Gemm {
 public:
  Gemm(const GemmTask& task, std::int64_t panel_elements)
      : t_(task),
        weights_(static_cast<const Element*>(task.weights)),
        panel_elements_(panel_elements),
        tiles_(task.rows) {}

  void run() const {
    if (tiles_.tiles == 1) {
      run_one_tile();
      return;
    }
    // Cut rows and k into blocks whose packed rows stay in the second-level cache while all panels pass over them.
    const std::int64_t at_once = t_.blocking.tiles;
    for (std::int64_t first = 0; first < tiles_.tiles; first += at_once) {
      const std::int64_t last = first + at_once < tiles_.tiles ? first + at_once : tiles_.tiles;
      for (std::int64_t k = 0; k < t_.k; k += t_.blocking.depth) run_block(first, last, k);
    }
  }

 private:
  // With a single tile every weight is used once, so panels are processed in parallel.
  void run_one_tile() const {
    const int rows = tiles_.height(0), pairs = pairs_for<V>(rows);
    const auto many = GemmTiles<V, Weights>::many(rows), one = GemmTiles<V, Weights>::one(rows);
    std::int64_t panel = t_.panel_begin;
    for (; panel + pairs <= t_.panel_end; panel += pairs) many(t_.x, ahead_of(panel), t_.k, output(0, panel, true));
    for (; panel < t_.panel_end; ++panel) one(t_.x, ahead_of(panel), t_.k, output(0, panel, true));
  }

  void run_block(std::int64_t first, std::int64_t last, std::int64_t k) const {
    // Loop over panels outside and tiles inside: a panel is read from memory once and serves all tiles of the block.
    // Each tile fetches its share of the next panel.
    const std::int64_t depth = t_.k - k < t_.blocking.depth ? t_.k - k : t_.blocking.depth, tiles = last - first;
    for (std::int64_t panel = t_.panel_begin; panel < t_.panel_end; ++panel) {
      Weights weights = at(panel, k);
      weights.fetch_at = reinterpret_cast<const std::byte*>(weights.at + panel_elements_);
      weights.fetch_step = (Weights::kRowBytes + tiles - 1) / tiles;
      for (std::int64_t tile = first; tile < last; ++tile) {
        const int height = tiles_.height(tile);
        const float* x = t_.x + tiles_.begin(tile) * t_.k + k * height;
        GemmTiles<V, Weights>::one(height)(x, weights, depth, output(tiles_.begin(tile), panel, k == 0));
        weights.fetch_at += depth * Weights::kRowBytes / tiles;
      }
    }
  }

  Weights at(std::int64_t panel, std::int64_t k) const {
    Weights weights(weights_ + panel * panel_elements_ + k * Weights::kRow, panel_elements_);
    weights.far = t_.blocking.far;
    return weights;
  }
  Weights ahead_of(std::int64_t panel) const {
    Weights weights = at(panel, 0);
    weights.fetch_at += t_.blocking.ahead;
    weights.fetch_step = Weights::kRowBytes;
    weights.ahead = t_.blocking.ahead;
    return weights;
  }

  TileOutput output(std::int64_t row, std::int64_t panel, bool first) const {
    const std::int64_t column = panel * (2 * V::kWidth);
    // The first block of k starts from the bias or from y. Later blocks add to its sums.
    return {t_.y + row * t_.n + column, t_.n, t_.n - column, first && t_.bias != nullptr ? t_.bias + column : nullptr,
            t_.accumulate || !first};
  }

  const GemmTask& t_;
  const Element* weights_;
  std::int64_t panel_elements_;
  RowTiles<V> tiles_;
};

template <class V>
void gemm(const GemmTask& task) {
  const std::int64_t panel = task.k * (2 * V::kWidth);
  if (task.rows == 0) return;
  if (task.bf16)
    Gemm<V, Bf16Panels<V>, std::uint16_t>(task, panel).run();
  else
    Gemm<V, F32Panels<V>, float>(task, panel).run();
}

// Transposes [rows][k] to [k][rows] for one tile. More rows than the vector's width take several passes.
template <class V>
void pack_tile(const float* x, std::int64_t stride, int height, std::int64_t k, float* out) {
  const float* const end = out + height * k;
  const std::int64_t whole = k / V::kWidth * V::kWidth;
  for (int first = 0; first < height; first += V::kWidth) {
    const int lanes = height - first < V::kWidth ? height - first : V::kWidth;
    for (std::int64_t i = 0; i < whole; i += V::kWidth) {
      typename V::F r[V::kWidth];
      for (int row = 0; row < V::kWidth; ++row)
        r[row] = row < lanes ? V::load(x + (first + row) * stride + i) : V::zero();
      V::transpose(r);
      for (int j = 0; j < V::kWidth; ++j) {
        float* to = out + (i + j) * height + first;
        // Storing a whole vector overwrites the columns written next. At the end there are none, so store single
        // elements.
        if (lanes == V::kWidth || (first == 0 && to + V::kWidth <= end))
          V::store(to, r[j]);
        else
          V::store_first(to, r[j], lanes);
      }
    }
  }
  // The rest of k, shorter than a vector.
  for (std::int64_t i = whole; i < k; ++i) {
    for (int row = 0; row < height; ++row) out[i * height + row] = x[row * stride + i];
  }
}

template <class V>
void pack_rows(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::int64_t tile_begin,
               std::int64_t tile_end, float* packed) {
  const RowTiles<V> tiles(rows);
  for (std::int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const std::int64_t row = tiles.begin(tile);
    pack_tile<V>(x + row * stride, stride, tiles.height(tile), k, packed + row * k);
  }
}

}  // namespace plimsoll::exec

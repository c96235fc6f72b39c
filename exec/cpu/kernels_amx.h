// SPDX-License-Identifier: Apache-2.0
// Products of bf16 weights on a matrix unit like AMX, over a type Tiles that holds its registers: the real ones
// (kernels_amx.cpp) or their emulation (kernels_pairs.cpp). One step multiplies 16 rows with 32 numbers each and 16
// columns. Packed rows are [rows][words], weights are the panels of kernels_pairs.h.
#pragma once

#include "exec/cpu/kernels_pairs.h"

namespace plimsoll::exec {

struct AmxShape {
  static constexpr int kRows = 16, kColumns = 16, kWords = 16, kPanel = 32;
};

// Sums of up to two tiles of rows by the two halves of a panel.
struct AmxSums {
  alignas(64) float at[2][2][AmxShape::kRows][AmxShape::kColumns];
};

// Tiles::kRows is AmxShape::kRows. Types of one file make all instances its own (kernels_pairs.h).
template <class Tiles>
class AmxGemm {
 public:
  explicit AmxGemm(const GemmTask& task)
      : t_(task), weights_(static_cast<const std::uint32_t*>(task.weights)), tiles_(task.rows) {}

  // Blocks as in Gemm; the depth is whole steps.
  void run() {
    const std::int64_t steps = t_.blocking.depth / AmxShape::kWords, depth = (steps < 1 ? 1 : steps) * AmxShape::kWords;
    for (std::int64_t first = 0; first < tiles_.tiles; first += t_.blocking.tiles) {
      const std::int64_t last = first + t_.blocking.tiles < tiles_.tiles ? first + t_.blocking.tiles : tiles_.tiles;
      for (std::int64_t k = 0; k < t_.k; k += depth) run_block(first, last, k, t_.k - k < depth ? t_.k : k + depth);
    }
    registers_.release();
  }

 private:
  void run_block(std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = t_.panel_begin; panel < t_.panel_end; ++panel)
      for (std::int64_t tile = first; tile < last; tile += 2) run_pair(tile, tile + 1 < last, panel, begin, end);
  }

  void run_pair(std::int64_t tile, bool two, std::int64_t panel, std::int64_t begin, std::int64_t end) {
    const int heights[] = {tiles_.height(tile), two ? tiles_.height(tile + 1) : 0};
    registers_.configure(heights[0], heights[1]);
    AmxSums sums;
    for (int i = 0; i < (two ? 2 : 1); ++i) {
      for (int half = 0; half < 2; ++half) {
        start(tile + i, panel, half, begin == 0, sums.at[i][half]);
        registers_.load_sums(2 * i + half, sums.at[i][half][0]);
      }
    }
    const auto* const x = reinterpret_cast<const std::uint32_t*>(t_.x);
    const std::uint32_t* const a = x + tiles_.begin(tile) * t_.k;
    const std::uint32_t* const b = two ? x + tiles_.begin(tile + 1) * t_.k : nullptr;
    const std::uint32_t* w = weights_ + (panel * t_.k + begin) * AmxShape::kPanel;
    const std::int64_t next = t_.rows <= AmxShape::kRows ? t_.blocking.ahead / 4 : t_.k * AmxShape::kPanel;
    for (std::int64_t k = begin; k < end; k += AmxShape::kWords, w += AmxShape::kWords * AmxShape::kPanel) {
      // What a single tile needs later; or, while the first tiles pass over a panel, the next panel.
      if (tile % t_.blocking.tiles == 0) fetch(w + next);
      registers_.step(a + k, two ? b + k : nullptr, t_.k, w);
    }
    for (int i = 0; i < (two ? 2 : 1); ++i) {
      for (int half = 0; half < 2; ++half) {
        registers_.store_sums(2 * i + half, sums.at[i][half][0]);
        finish(tile + i, panel, half, sums.at[i][half]);
      }
    }
  }

  void fetch(const std::uint32_t* words) const {
    const auto* const bytes = reinterpret_cast<const std::byte*>(words);
    for (int i = 0; i < AmxShape::kWords * AmxShape::kPanel * 4; i += 64) prefetch(bytes + i, t_.blocking.far);
  }

  using Half = float[AmxShape::kRows][AmxShape::kColumns];
  void start(std::int64_t tile, std::int64_t panel, int half, bool first, Half& sums) const {
    const std::int64_t column = panel * AmxShape::kPanel + half * AmxShape::kColumns, row = tiles_.begin(tile);
    for (int i = 0; i < tiles_.height(tile); ++i) {
      for (int j = 0; j < AmxShape::kColumns; ++j) {
        const bool valid = column + j < t_.n;
        float sum = valid && (t_.accumulate || !first) ? t_.y[(row + i) * t_.n + column + j] : 0.0F;
        if (valid && first && t_.bias != nullptr) sum += t_.bias[column + j];
        sums[i][j] = sum;
      }
    }
  }
  void finish(std::int64_t tile, std::int64_t panel, int half, const Half& sums) const {
    const std::int64_t column = panel * AmxShape::kPanel + half * AmxShape::kColumns, row = tiles_.begin(tile);
    const std::int64_t left = t_.n - column, count = left < AmxShape::kColumns ? left : AmxShape::kColumns;
    for (int i = 0; i < tiles_.height(tile); ++i)
      for (std::int64_t j = 0; j < count; ++j) t_.y[(row + i) * t_.n + column + j] = sums[i][j];
  }

  const GemmTask& t_;
  const std::uint32_t* weights_;
  RowTiles<Tiles> tiles_;
  Tiles registers_;
};

template <class Tiles>
void amx_gemm(const GemmTask& task) {
  if (task.rows > 0) AmxGemm<Tiles>(task).run();
}

// Packs row by row: the matrix unit reads whole rows.
template <class Tiles>
void pack_amx(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::int64_t tile_begin,
              std::int64_t tile_end, float* packed) {
  const std::int64_t words = (k + 31) / 32 * 16;
  const RowTiles<Tiles> tiles(rows);
  for (std::int64_t row = tiles.begin(tile_begin); row < tiles.begin(tile_end); ++row)
    round_pairs(x + row * stride, k, 0, words, packed + row * words);
}

template <class Tiles>
constexpr ProductKernels amx_set(const char* name) {
  ProductKernels set;
  set.name = name;
  set.panel = AmxShape::kPanel;
  set.rows = AmxShape::kRows;
  set.pairs = true;
  set.pack_rows = pack_amx<Tiles>;
  set.gemm = amx_gemm<Tiles>;
  return set;
}

}  // namespace plimsoll::exec

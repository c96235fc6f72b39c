// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels_amx.h"

#include <immintrin.h>

#include "exec/cpu/kernels.h"
#include "exec/cpu/simd_avx512.h"

namespace plimsoll::exec {

namespace {

// Registers 0 to 3 hold sums, 4 and 5 rows, 6 and 7 weights.
class AmxTiles {
 public:
  static constexpr int kRows = AmxShape::kRows;

  void configure(int first, int second) {
    if (first == first_ && second == second_) return;
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {};
      std::uint8_t rows[16] = {};
    } shape;
    const int rows[] = {first, first, second, second, first, second, 16, 16};
    for (int i = 0; i < 8; ++i) {
      shape.rows[i] = static_cast<std::uint8_t>(rows[i] > 0 ? rows[i] : 1);
      shape.row_bytes[i] = 64;
    }
    _tile_loadconfig(&shape);
    first_ = first;
    second_ = second;
  }
  void release() { _tile_release(); }

  void load_sums(int i, const float* from) {
    switch (i) {
      case 0: _tile_loadd(0, from, 64); break;
      case 1: _tile_loadd(1, from, 64); break;
      case 2: _tile_loadd(2, from, 64); break;
      default: _tile_loadd(3, from, 64); break;
    }
  }
  void store_sums(int i, float* to) {
    switch (i) {
      case 0: _tile_stored(0, to, 64); break;
      case 1: _tile_stored(1, to, 64); break;
      case 2: _tile_stored(2, to, 64); break;
      default: _tile_stored(3, to, 64); break;
    }
  }
  void step(const std::uint32_t* a, const std::uint32_t* b, std::int64_t row_words, const std::uint32_t* weights) {
    const std::int64_t row = row_words * 4;
    constexpr std::int64_t kWeightRow = AmxShape::kPanel * 4;
    _tile_loadd(6, weights, kWeightRow);
    _tile_loadd(7, weights + AmxShape::kColumns, kWeightRow);
    _tile_loadd(4, a, row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (b == nullptr) return;
    _tile_loadd(5, b, row);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }

 private:
  int first_ = -1, second_ = -1;
};

}  // namespace

// constinit: this file must not run code at start-up, because the machine may lack its instructions.
constinit const ProductKernels kAmxPairs = amx_set<AmxTiles>("amx");

}  // namespace plimsoll::exec

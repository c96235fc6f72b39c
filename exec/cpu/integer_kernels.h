// SPDX-License-Identifier: Apache-2.0
// Products with weights of 4 or 8 bits. Activations are rounded to 16 bits with a scale per row and block of columns;
// sums inside a block are exact integers. Compiled for every instruction set as the other kernels are (kernels.h), and
// once more for AVX-512 with VNNI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

/// How integer weights are stored. A block is the columns that share one scale in a panel: 32, 64 or 128.
struct IntegerLayout {
  int bits = 4;             // 4 or 8
  bool zeros = false;       // a zero per row and block; without, it is middle()
  std::int64_t block = 32;  // columns
  std::int64_t blocks = 0;  // of a row; missing columns of the last one are zero

  /// Returns what is added to weights and zeros, so that they are stored without a sign.
  [[nodiscard]] std::int32_t middle() const { return bits == 4 ? 8 : 128; }
  /// Returns the 32-bit words of a row of packed activations: scale, start value and 16-bit numbers, as pairs or as
  /// words of their upper and of their lower bytes.
  [[nodiscard]] std::int64_t row_words() const { return blocks * (2 + block / 2); }
  /// Returns the bytes of a panel. A block of a panel is: f16 scales; bytes with zeros, if any, padded to the same
  /// size; for each 8 (4 bits) or 4 (8 bits) rows of k, a vector for either half of the columns.
  [[nodiscard]] std::int64_t panel_bytes(int panel) const { return blocks * block_bytes(panel); }
  [[nodiscard]] std::int64_t block_bytes(int panel) const { return panel * (zeros ? 4 : 2) + panel * block * bits / 8; }
};

struct IntegerTask {
  IntegerLayout layout;
  const std::int32_t* x = nullptr;  // rows packed by pack_rows
  std::int64_t rows = 0, n = 0;
  const std::byte* weights = nullptr;  // [panels] of layout.panel_bytes()
  const float* factor = nullptr;       // [panels * panel]: powers of two that multiply the scales of a column
  std::int64_t panel_begin = 0, panel_end = 0;
  float* y = nullptr;           // [rows, n]
  const float* bias = nullptr;  // [n] or null
  bool accumulate = false;      // y += instead of y =
  model::CpuBlocking blocking = {};
};

/// Rows of activations to pack. Packs the tiles [tile_begin, tile_end) of tile_count(rows).
struct IntegerRowsTask {
  IntegerLayout layout;
  const float* x = nullptr;
  const std::int32_t* order = nullptr;  // column order[i] of x becomes column i; null: as they are
  std::int64_t stride = 0, rows = 0, k = 0;
  std::int64_t tile_begin = 0, tile_end = 0;
  std::int32_t* packed = nullptr;  // rows * layout.row_words()
};

/// The integer kernels of one instruction set.
struct IntegerKernels {
  const char* name = "";
  int panel = 0;  // columns of a panel; the same as in the KernelSet
  int rows = 0;   // most rows in a tile
  void (*pack_rows)(const IntegerRowsTask& task) = nullptr;
  void (*gemm)(const IntegerTask& task) = nullptr;

  [[nodiscard]] std::int64_t tile_count(std::int64_t m) const { return (m + rows - 1) / rows; }
};

extern const IntegerKernels kPortableIntegers;
extern const IntegerKernels kAvx2Integers;  // only with PLIMSOLL_X86
extern const IntegerKernels kAvx512Integers;
extern const IntegerKernels kVnniIntegers;  // AVX-512 with VNNI

/// Returns the integer kernels of a set that this machine can run, fastest first.
[[nodiscard]] std::vector<const IntegerKernels*> runnable_integers(const KernelSet& kernels);

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Products of 16-bit activations with weights of 4 or 8 bits, over a vector type V (simd_*.h) with integer operations.
// A 32-bit lane belongs to one output column. It holds pairs of adjacent k, which one instruction multiplies and adds.
//
// A tile keeps its integer sums in registers for one block of k. Then they are scaled and added to f32 sums on the
// stack. The f32 additions have the same order in every tile, so a row's bits do not depend on the other rows.
#pragma once

#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/kernels_gemm.h"

namespace plimsoll::exec {

// ---- activations ------------------------------------------------------------------------------------------------

constexpr std::int64_t kMostBlock = 128;

// Rounds one block of a row to 16 bits. Returns its scale and the sum of its integers.
struct RoundedBlock {
  float scale;
  std::int32_t sum;
};

// Rounds numbers to integers, which are left in the lower 16 bits of `rounded`. Numbers beyond `count` are zero.
template <class V>
RoundedBlock round_block(const float* x, std::int64_t count, std::int64_t block, float* rounded) {
  float padded[kMostBlock];
  if (count < block) {
    for (std::int64_t i = 0; i < block; ++i) padded[i] = i < count ? x[i] : 0.0F;
    x = padded;
  }
  typename V::F most = V::zero();
  for (std::int64_t i = 0; i < block; i += V::kWidth) {
    const typename V::F v = V::load(x + i);
    most = V::max(V::max(v, V::zero() - v), most);
  }
  constexpr float kLargest = 127 * 256 + 127, kTiny = 1e-30F;  // its upper byte stays in range when it is rounded up
  const float highest = V::highest(most);
  const float inverse = highest > kTiny ? kLargest / highest : 0.0F;
  // Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the lower bits of the float.
  constexpr float kMagic = 12582912.0F;
  typename V::F sum = V::zero();
  for (std::int64_t i = 0; i < block; i += V::kWidth) {
    const typename V::F moved = V::fma(V::load(x + i), V::set(inverse), V::set(kMagic));
    sum = sum + (moved - V::set(kMagic));
    V::store(rounded + i, moved);
  }
  // The sum is below 2^22, so the float is exact. It is NaN if any number is NaN or infinite: the inverse of infinity
  // is zero, and zero times infinity is NaN. Then the scale is NaN too, and no integer changes the result.
  const float total = V::sum(sum);
  const float scale = highest > kTiny ? highest / kLargest : 0.0F;
  return total == total ? RoundedBlock{scale, static_cast<std::int32_t>(total)} : RoundedBlock{total, 0};
}

// Writes pairs of 16-bit integers as 32-bit words, which are handled as floats. This function and the next two are
// static, so that each set of kernels has its own.
static inline void join_pairs(const float* rounded, std::int64_t block, float* words) {
  for (std::int64_t i = 0; i < block / 2; ++i) {
    std::uint32_t low, high;
    __builtin_memcpy(&low, rounded + 2 * i, sizeof low);
    __builtin_memcpy(&high, rounded + 2 * i + 1, sizeof high);
    const std::uint32_t word = (low & 0xffffU) | high << 16U;
    __builtin_memcpy(words + i, &word, sizeof word);
  }
}

// The integer that a column's sums of a block start from, for the zero of the weights: see integer_tile().
static inline std::int32_t start_of(const IntegerLayout& layout, std::int32_t sum) {
  if (!layout.zeros) return -layout.middle() * sum;
  // As a pair for weights (zero, zero << 7): minus the sum has 23 bits, too many for one 16-bit factor.
  const std::int32_t minus = -sum;
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(minus & 127) | static_cast<std::uint32_t>(minus >> 7)
                                                                                 << 16U);
}

// Writes numbers as bytes that lie as the weights do (IntegerLinear::pack_weights): for each byte of a half word, a
// word of the upper bytes and then one of the lower bytes. Each number is 256 upper + lower, and both are signed.
static inline void split_bytes(const float* rounded, std::int64_t block, int bits, float* words) {
  using Words [[gnu::vector_size(16)]] = std::uint32_t;
  using Bytes [[gnu::vector_size(16)]] = std::uint8_t;
  for (std::int64_t i = 0; i < block; i += 8) {
    Words first, second;
    __builtin_memcpy(&first, rounded + i, sizeof first);
    __builtin_memcpy(&second, rounded + i + 4, sizeof second);
    const auto low_a = reinterpret_cast<Bytes>(first), low_b = reinterpret_cast<Bytes>(second);
    // 128 more, because the lower byte is signed. The upper byte is the second one.
    const auto high_a = reinterpret_cast<Bytes>(first + 128U), high_b = reinterpret_cast<Bytes>(second + 128U);
    Bytes low, high;
    if (bits == 4) {  // numbers 0 4 1 5, 2 6 3 7
      low = __builtin_shufflevector(low_a, low_b, 0, 16, 4, 20, 8, 24, 12, 28, 0, 0, 0, 0, 0, 0, 0, 0);
      high = __builtin_shufflevector(high_a, high_b, 1, 17, 5, 21, 9, 25, 13, 29, 1, 1, 1, 1, 1, 1, 1, 1);
    } else {  // numbers 0 2 1 3, 4 6 5 7
      low = __builtin_shufflevector(low_a, low_b, 0, 8, 4, 12, 16, 24, 20, 28, 0, 0, 0, 0, 0, 0, 0, 0);
      high = __builtin_shufflevector(high_a, high_b, 1, 9, 5, 13, 17, 25, 21, 29, 1, 1, 1, 1, 1, 1, 1, 1);
    }
    const Bytes both = __builtin_shufflevector(high, low, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    __builtin_memcpy(words + i / 2, &both, sizeof both);
  }
}

// A tile of packed rows is [blocks] of: scales [height], starts [height], pairs [block / 2][height].
template <class V, int Rows>
void pack_integer_rows(const IntegerRowsTask& t) {
  const std::int64_t tiles = (t.rows + Rows - 1) / Rows, words = t.layout.block / 2;
  float gathered[kMostBlock], rounded[kMostBlock], packed[Rows * kMostBlock / 2];
  for (std::int64_t tile = t.tile_begin; tile < t.tile_end; ++tile) {
    const std::int64_t first = t.rows * tile / tiles;
    const int height = static_cast<int>(t.rows * (tile + 1) / tiles - first);
    std::int32_t* to = t.packed + first * t.layout.row_words();
    for (std::int64_t b = 0; b < t.layout.blocks; ++b, to += height * (2 + words)) {
      const std::int64_t column = b * t.layout.block;
      const std::int64_t count = t.k - column < t.layout.block ? t.k - column : t.layout.block;
      for (int row = 0; row < height; ++row) {
        const float* x = t.x + (first + row) * t.stride;
        if (t.order != nullptr) {
          for (std::int64_t i = 0; i < count; ++i) gathered[i] = x[t.order[column + i]];
          x = gathered;
        } else {
          x += column;
        }
        const RoundedBlock of_row = round_block<V>(x, count, t.layout.block, rounded);
        __builtin_memcpy(to + row, &of_row.scale, sizeof(float));
        to[height + row] = start_of(t.layout, of_row.sum);
        float* const row_words = height == 1 ? reinterpret_cast<float*>(to + 2) : packed + row * words;
        if (height <= V::kByteRows)
          split_bytes(rounded, t.layout.block, t.layout.bits, row_words);
        else
          join_pairs(rounded, t.layout.block, row_words);
      }
      if (height > 1) pack_tile<V>(packed, words, height, words, reinterpret_cast<float*>(to + 2 * height));
    }
  }
}

// ---- weights ----------------------------------------------------------------------------------------------------

// part<i>(vector): pairs of 16-bit weights for k = 2 i and 2 i + 1 of the vector's rows. bytes<i>(vector): bytes of
// weights for the k of two such parts.
template <class V>
struct FourBits {
  static constexpr int kParts = 4;
  template <int Part>
  static typename V::I part(typename V::I v) {
    return V::template nibbles<Part>(v);
  }
  template <int Part>
  static typename V::I bytes(typename V::I v) {
    return V::template nibble_bytes<Part>(v);
  }
};
template <class V>
struct EightBits {
  static constexpr int kParts = 2;
  template <int Part>
  static typename V::I part(typename V::I v) {
    return V::template bytes<Part>(v);
  }
  template <int Part>
  static typename V::I bytes(typename V::I v) {
    return v;
  }
};

struct IntegerOutput {
  float* y;
  std::int64_t stride, columns;  // valid columns, from y on
  const float* bias;
  const float* factor;
  bool add;
};

// Where a tile's weights begin. A tile processes Vecs vectors of columns: those of a panel, or one half of it.
struct IntegerPanel {
  const std::byte* at;  // first block
  int half;             // of a tile of one vector
  // What to prefetch: `ahead` bytes later, or, if that is 0, what the next panel needs: `fetch_step` bytes from `fetch`
  // on in each step.
  std::int64_t ahead = 0;
  const std::byte* fetch = nullptr;
  std::int64_t fetch_step = 0;
  bool far = false;
};

template <class V, class Bits, int Rows, int Vecs, int Part>
[[gnu::always_inline]] inline void add_parts(typename V::I (&sums)[Rows][Vecs], const std::int32_t* x,
                                             const std::byte* const (&w)[Vecs]) {
  if constexpr (Part < Bits::kParts) {
    typename V::I weights[Vecs];
#pragma GCC unroll 8
    for (int i = 0; i < Vecs; ++i) weights[i] = Bits::template part<Part>(V::load_ints(w[i]));
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const typename V::I pair = V::set_ints(x[Part * Rows + row]);
#pragma GCC unroll 8
      for (int i = 0; i < Vecs; ++i) sums[row][i] = V::dot(sums[row][i], weights[i], pair);
    }
    add_parts<V, Bits, Rows, Vecs, Part + 1>(sums, x, w);
  }
}

// The same with bytes: `high` sums the products of upper bytes, `low` those of lower ones.
template <class V, class Bits, int Rows, int Vecs, int Part>
[[gnu::always_inline]] inline void add_bytes(typename V::I (&high)[Rows][Vecs], typename V::I (&low)[Rows][Vecs],
                                             const std::int32_t* x, const std::byte* const (&w)[Vecs]) {
  if constexpr (Part < Bits::kParts / 2) {
    typename V::I weights[Vecs];
#pragma GCC unroll 8
    for (int i = 0; i < Vecs; ++i) weights[i] = Bits::template bytes<Part>(V::load_ints(w[i]));
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const typename V::I upper = V::set_ints(x[2 * Part * Rows + row]);
      const typename V::I lower = V::set_ints(x[(2 * Part + 1) * Rows + row]);
#pragma GCC unroll 8
      for (int i = 0; i < Vecs; ++i) {
        high[row][i] = V::dot_bytes(high[row][i], weights[i], upper);
        low[row][i] = V::dot_bytes(low[row][i], weights[i], lower);
      }
    }
    add_bytes<V, Bits, Rows, Vecs, Part + 1>(high, low, x, w);
  }
}

// Sets the integers that a block's sums start from. Without zeros of their own, all columns start from the same one.
template <class V, int Rows, int Vecs>
[[gnu::always_inline]] inline void start_sums(typename V::I (&sums)[Rows][Vecs], const std::int32_t* starts,
                                              const std::byte* const (&zeros)[Vecs], bool own) {
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int i = 0; i < Vecs; ++i) sums[row][i] = V::set_ints(starts[row]);
  }
  if (!own) return;
#pragma GCC unroll 8
  for (int i = 0; i < Vecs; ++i) {
    const typename V::I pairs = V::zero_pairs(zeros[i]);
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) sums[row][i] = V::dot(V::set_ints(0), pairs, sums[row][i]);
  }
}

// Prefetches for one step of a tile. Always inlined, as Panels::fetch().
template <int Vecs>
[[gnu::always_inline]] inline void fetch_step(IntegerPanel& panel, const std::byte* const (&w)[Vecs]) {
  if (panel.ahead > 0) {
#pragma GCC unroll 8
    for (int i = 0; i < Vecs; ++i) prefetch(w[i] + panel.ahead, panel.far);
  } else if (panel.fetch_step > 0) {
    prefetch(panel.fetch, panel.far);
    prefetch(panel.fetch + 64, panel.far);
    panel.fetch += panel.fetch_step;
  }
}

// Sets the sums that a tile adds to. They are divided by the columns' factors, which is exact: these are powers of two.
template <class V, int Rows, int Vecs>
[[gnu::always_inline]] inline void load_sums(typename V::F (&sums)[Rows][Vecs], const IntegerOutput& out) {
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int i = 0; i < Vecs; ++i) {
      const std::int64_t column = i * V::kWidth, left = out.columns - column;
      typename V::F sum = out.add ? load_columns<V>(out.y + row * out.stride + column, left) : V::zero();
      if (out.bias != nullptr) sum = sum + load_columns<V>(out.bias + column, left);
      sums[row][i] = sum / V::load(out.factor + column);
    }
  }
}

template <class V, int Rows, int Vecs>
[[gnu::always_inline]] inline void store_sums(const typename V::F (&sums)[Rows][Vecs], const IntegerOutput& out) {
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int i = 0; i < Vecs; ++i) {
      const std::int64_t column = i * V::kWidth;
      store_columns<V>(out.y + row * out.stride + column, sums[row][i] * V::load(out.factor + column),
                       out.columns - column);
    }
  }
}

template <class V, class Bits, int Rows, int Vecs>
void integer_tile(const IntegerLayout& layout, const std::int32_t* x, IntegerPanel panel, std::int64_t blocks,
                  const IntegerOutput& out) {
  constexpr int kWidth = V::kWidth, kPanel = 2 * kWidth, kVector = 4 * kWidth;
  const std::int64_t header = (layout.zeros ? 4 : 2) * kPanel, half_bytes = kWidth * layout.block * layout.bits / 8;
  const std::int64_t steps = half_bytes / kVector, block_bytes = header + 2 * half_bytes;
  typename V::F sums[Rows][Vecs];
  load_sums<V, Rows, Vecs>(sums, out);
  for (std::int64_t b = 0; b < blocks; ++b, panel.at += block_bytes, x += Rows * (2 + layout.block / 2)) {
    typename V::I integers[Rows][Vecs];
    const std::byte *w[Vecs], *scales[Vecs], *zeros[Vecs];
#pragma GCC unroll 8
    for (int i = 0; i < Vecs; ++i) {
      const int half = Vecs == 1 ? panel.half : i;
      scales[i] = panel.at + half * 2 * kWidth;
      zeros[i] = panel.at + 2 * kPanel + half * kWidth;
      w[i] = panel.at + header + half * kVector;
    }
    start_sums<V, Rows, Vecs>(integers, x + Rows, zeros, layout.zeros);
    const std::int32_t* pairs = x + 2 * Rows;
    typename V::I high[Rows][Vecs] = {};  // unused and removed where pairs are multiplied
    if (panel.ahead > 0) {
#pragma GCC unroll 8
      for (int i = 0; i < Vecs; ++i) prefetch(scales[i] + panel.ahead, panel.far);
    }
    for (std::int64_t step = 0; step < steps; ++step, pairs += Bits::kParts * Rows) {
      fetch_step<Vecs>(panel, w);
      if constexpr (Rows <= V::kByteRows)
        add_bytes<V, Bits, Rows, Vecs, 0>(high, integers, pairs, w);
      else
        add_parts<V, Bits, Rows, Vecs, 0>(integers, pairs, w);
#pragma GCC unroll 8
      for (int i = 0; i < Vecs; ++i) w[i] += 2 * kVector;
    }
#pragma GCC unroll 8
    for (int i = 0; i < Vecs; ++i) {
      const typename V::F scale = V::load_halves(scales[i]);
#pragma GCC unroll 16
      for (int row = 0; row < Rows; ++row) {
        float of_row;
        __builtin_memcpy(&of_row, x + row, sizeof of_row);
        typename V::I sum = integers[row][i];
        if constexpr (Rows <= V::kByteRows) sum = V::add_upper(sum, high[row][i]);
        sums[row][i] = V::fma(V::to_floats(sum), scale * V::set(of_row), sums[row][i]);
      }
    }
  }
  store_sums<V, Rows, Vecs>(sums, out);
}

// Returns how many vectors of columns a tile of this height processes: its sums, as many weights, and a few others
// must fit into the registers. More than a panel would have room at batch 1, but panels one after another are one
// stream of memory, which the hardware prefetches best.
template <class V>
constexpr int vectors_for(int rows) {
  const int sums = rows <= V::kByteRows ? 2 * rows : rows;  // of a vector
  return sums * 2 + 2 + V::kSpareRegisters <= V::kRegisters ? 2 : 1;
}

using IntegerTile = void (*)(const IntegerLayout&, const std::int32_t*, IntegerPanel, std::int64_t,
                             const IntegerOutput&);

// Tiles by height. Each processes a panel or, if it is too high, half of one.
template <class V, class Bits, int Rows>
struct IntegerTiles {
  static constexpr int kVectors = vectors_for<V>(Rows);
  using Lower = IntegerTiles<V, Bits, Rows - 1>;
  static IntegerTile tile(int rows) { return rows == Rows ? integer_tile<V, Bits, Rows, kVectors> : Lower::tile(rows); }
  static int vectors(int rows) { return rows == Rows ? kVectors : Lower::vectors(rows); }
};
template <class V, class Bits>
struct IntegerTiles<V, Bits, 0> {
  static IntegerTile tile(int) { return nullptr; }
  static int vectors(int) { return 1; }
};

// ---- products ---------------------------------------------------------------------------------------------------

template <class V, class Bits>
class IntegerGemm {
  using Tiles = IntegerTiles<V, Bits, V::kIntegerRows>;
  static constexpr int kPanel = 2 * V::kWidth;

 public:
  explicit IntegerGemm(const IntegerTask& task)
      : t_(task), panel_bytes_(task.layout.panel_bytes(kPanel)), block_bytes_(task.layout.block_bytes(kPanel)) {}

  void run() const {
    const std::int64_t tiles = tile_count();
    if (tiles == 1 && Tiles::vectors(static_cast<int>(t_.rows)) > 1) return run_one_tile();
    // As in Gemm: packed rows stay in the second-level cache while all panels pass over them. A high tile passes over
    // each panel twice.
    const std::int64_t at_once = t_.blocking.tiles;
    const std::int64_t whole = t_.blocking.depth / t_.layout.block, blocks = whole < 1 ? 1 : whole;
    for (std::int64_t first = 0; first < tiles; first += at_once) {
      for (std::int64_t b = 0; b < t_.layout.blocks; b += blocks) {
        for (std::int64_t panel = t_.panel_begin; panel < t_.panel_end; ++panel) {
          run_tiles(panel, first, tiles - first < at_once ? tiles : first + at_once, {b, blocks});
        }
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t tile_count() const { return (t_.rows + V::kIntegerRows - 1) / V::kIntegerRows; }
  [[nodiscard]] std::int64_t first_row(std::int64_t tile) const { return t_.rows * tile / tile_count(); }

  struct Blocks {
    std::int64_t first, count;
  };

  // While tiles pass over one panel, they fetch the next: memory is read at an even rate.
  void run_tiles(std::int64_t panel, std::int64_t first, std::int64_t last, Blocks blocks) const {
    if (blocks.count > t_.layout.blocks - blocks.first) blocks.count = t_.layout.blocks - blocks.first;
    const std::int64_t bytes = blocks.count * block_bytes_;
    IntegerPanel weights = at(panel, blocks.first);
    weights.fetch = weights.at + panel_bytes_;
    for (std::int64_t tile = first; tile < last; ++tile) {
      const int height = static_cast<int>(first_row(tile + 1) - first_row(tile));
      const std::int64_t passes = Tiles::vectors(height) > 1 ? 1 : 2;
      const std::int64_t steps = blocks.count * (t_.layout.block * t_.layout.bits / 32);
      weights.fetch_step = (bytes / (last - first) + passes * steps - 1) / (passes * steps);
      run_panel(weights, panel, tile, blocks);
      weights.fetch += bytes / (last - first);
    }
  }

  // With a single tile every weight is used once.
  void run_one_tile() const {
    for (std::int64_t panel = t_.panel_begin; panel < t_.panel_end; ++panel) {
      IntegerPanel weights = at(panel, 0);
      weights.ahead = t_.blocking.ahead;
      run_panel(weights, panel, 0, {0, t_.layout.blocks});
    }
  }

  void run_panel(IntegerPanel weights, std::int64_t panel, std::int64_t tile, Blocks blocks) const {
    const std::int64_t row = first_row(tile);
    const int height = static_cast<int>(first_row(tile + 1) - row);
    const std::int32_t* x = t_.x + row * t_.layout.row_words() + blocks.first * height * (2 + t_.layout.block / 2);
    const IntegerTile process = Tiles::tile(height);
    IntegerOutput out = output(row, panel, blocks.first == 0);
    process(t_.layout, x, weights, blocks.count, out);
    if (Tiles::vectors(height) > 1 || out.columns <= V::kWidth) return;
    // A high tile has processed only the first half of the columns, and fetched half of the next panel.
    weights.half = 1;
    weights.fetch += weights.fetch_step * (blocks.count * (t_.layout.block * t_.layout.bits / 32));
    out.y += V::kWidth;
    out.columns -= V::kWidth;
    out.factor += V::kWidth;
    if (out.bias != nullptr) out.bias += V::kWidth;
    process(t_.layout, x, weights, blocks.count, out);
  }

  [[nodiscard]] IntegerPanel at(std::int64_t panel, std::int64_t block) const {
    return {.at = t_.weights + panel * panel_bytes_ + block * block_bytes_, .half = 0, .far = t_.blocking.far};
  }

  [[nodiscard]] IntegerOutput output(std::int64_t row, std::int64_t panel, bool first) const {
    const std::int64_t column = panel * kPanel;
    return {.y = t_.y + row * t_.n + column,
            .stride = t_.n,
            .columns = t_.n - column,
            .bias = first && t_.bias != nullptr ? t_.bias + column : nullptr,
            .factor = t_.factor + column,
            .add = t_.accumulate || !first};
  }

  const IntegerTask& t_;
  std::int64_t panel_bytes_, block_bytes_;
};

template <class V>
void integer_gemm(const IntegerTask& task) {
  if (task.rows == 0) return;
  if (task.layout.bits == 4)
    IntegerGemm<V, FourBits<V>>(task).run();
  else
    IntegerGemm<V, EightBits<V>>(task).run();
}

template <class V>
constexpr IntegerKernels integer_set(const char* name) {
  IntegerKernels set;
  set.name = name;
  set.panel = 2 * V::kWidth;
  set.rows = V::kIntegerRows;
  set.pack_rows = pack_integer_rows<V, V::kIntegerRows>;
  set.gemm = integer_gemm<V>;
  return set;
}

}  // namespace plimsoll::exec

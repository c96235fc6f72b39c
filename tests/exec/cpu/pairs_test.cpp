// SPDX-License-Identifier: Apache-2.0
// Products by instructions that multiply pairs of bf16. Their arithmetic is stated here once more, operation by
// operation; the portable kernels and, where this machine has them, the instructions must give the same bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "exec/cpu/bf16.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/packed_linear.h"

namespace plimsoll::exec {
namespace {

struct PairShape {
  std::int64_t rows, n, k;
};
// Odd depths, columns beyond whole panels, one row, whole tiles, one row more, two blocks of a small depth.
const std::vector<PairShape> kPairShapes = {{1, 1, 1},    {1, 97, 64},   {2, 33, 175},  {5, 64, 100}, {8, 48, 96},
                                            {14, 31, 33}, {15, 40, 700}, {16, 32, 512}, {17, 70, 31}, {33, 65, 300}};

using FloatValues = std::vector<float>;

FloatValues random_floats(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  FloatValues values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value; }
float rounded(float value) { return flushed(from_bf16(to_bf16(value))); }

// VDPBF16PS: adds the product of the second numbers of a pair, rounds, adds that of the first, rounds.
float by_pairs(const float* x, const float* w, std::int64_t k, float sum) {
  for (std::int64_t i = 0; i < k; i += 2) {
    if (i + 1 < k) sum = flushed(std::fma(rounded(x[i + 1]), rounded(w[i + 1]), flushed(sum)));
    sum = flushed(std::fma(rounded(x[i]), rounded(w[i]), flushed(sum)));
  }
  return sum;
}

// TDPBF16PS: over 16 pairs, sums the products of first numbers and those of second numbers; then adds both together,
// and the result to the sum.
float by_tiles(const float* x, const float* w, std::int64_t k, float sum) {
  for (std::int64_t from = 0; from < k; from += 32) {
    float first = 0, second = 0;
    for (std::int64_t i = from; i < std::min(from + 32, k); ++i) {
      float& of_half = i % 2 == 0 ? first : second;
      of_half = flushed(std::fma(rounded(x[i]), rounded(w[i]), of_half));
    }
    sum = flushed(flushed(sum) + flushed(first + second));
  }
  return sum;
}

struct Set {
  const ProductKernels* kernels;
  float (*sum)(const float* x, const float* w, std::int64_t k, float sum);
};

// The portable sets, and those instructions that this machine has.
std::vector<Set> sets() {
  std::vector<Set> all = {{&kPortablePairs, by_pairs}, {&kPortableAmx, by_tiles}};
  for (const KernelSet* kernels : runnable_kernels())
    for (const ProductKernels* pairs : runnable_pairs(*kernels))
      all.push_back({pairs, pairs->rows == kPortableAmx.rows ? by_tiles : by_pairs});
  return all;
}

FillRows fill_from(const FloatValues& w, std::int64_t k) {
  return [&w, k](std::int64_t, std::int64_t row, std::int64_t rows, float* out) {
    std::copy_n(w.begin() + row * k, rows * k, out);
  };
}

FloatValues product(const ProductKernels& kernels, const PairShape& s, const FloatValues& w, const FloatValues& x,
                    const FloatValues& bias, FloatValues y, const model::CpuBlocking& blocking, int threads = 2) {
  ThreadPool pool(threads);
  const PackedLinear packed(kernels, {.n = s.n, .k = s.k, .copies = 1}, true, fill_from(w, s.k), pool);
  Multiplier multiplier(pool, {.one = blocking, .few = blocking, .many = blocking});
  const ProductRows rows{.copy = 0, .x = x.data(), .y = y.data(), .rows = s.rows};
  multiplier.run(packed, {&rows, 1}, bias.empty() ? nullptr : bias.data(), !std::isnan(y.front()));
  return y;
}

TEST(PairProducts, RoundAsTheInstructionsDo) {
  for (const Set& set : sets()) {
    for (const PairShape& s : kPairShapes) {
      const FloatValues w = random_floats(s.n * s.k, 1), x = random_floats(s.rows * s.k, 2),
                        bias = random_floats(s.n, 3);
      for (const bool accumulate : {false, true}) {
        const FloatValues start =
            accumulate ? random_floats(s.rows * s.n, 4)
                       : FloatValues(static_cast<std::size_t>(s.rows * s.n), std::numeric_limits<float>::quiet_NaN());
        const FloatValues y = product(*set.kernels, s, w, x, bias, start, {});
        for (std::int64_t row = 0; row < s.rows; ++row) {
          for (std::int64_t column = 0; column < s.n; ++column) {
            const auto at = static_cast<std::size_t>(row * s.n + column);
            const float first = (accumulate ? start[at] : 0.0F) + bias[static_cast<std::size_t>(column)];
            const float expected = set.sum(x.data() + row * s.k, w.data() + column * s.k, s.k, first);
            ASSERT_EQ(std::bit_cast<std::uint32_t>(y[at]), std::bit_cast<std::uint32_t>(expected))
                << set.kernels->name << ", " << s.rows << " x " << s.n << " x " << s.k << " at " << row << ", "
                << column;
          }
        }
      }
    }
  }
}

// Numbers from far below the normal range to far above 1, and zeros: flushing and rounding at every exponent.
TEST(PairProducts, FlushDenormalNumbersAsTheInstructionsDo) {
  std::mt19937 generator(7);
  const auto wild = [&](std::int64_t count) {
    FloatValues values(static_cast<std::size_t>(count));
    for (float& value : values) {
      const auto bits = static_cast<std::uint32_t>(generator());
      const std::uint32_t exponent = (bits >> 23U & 0xffU) % 150U;  // up to 2^22
      value = std::bit_cast<float>((bits & 0x807fffffU) | exponent << 23U);
    }
    return values;
  };
  const PairShape s{.rows = 16, .n = 64, .k = 64};
  for (const Set& set : sets()) {
    for (int round = 0; round < 20; ++round) {
      const FloatValues w = wild(s.n * s.k), x = wild(s.rows * s.k);
      const FloatValues y =
          product(*set.kernels, s, w, x, {}, FloatValues(16 * 64, std::numeric_limits<float>::quiet_NaN()), {});
      for (std::int64_t i = 0; i < s.rows * s.n; ++i) {
        const float expected = set.sum(x.data() + i / s.n * s.k, w.data() + i % s.n * s.k, s.k, 0);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(y[static_cast<std::size_t>(i)]), std::bit_cast<std::uint32_t>(expected))
            << set.kernels->name << " at " << i;
      }
    }
  }
}

// A row's bits depend neither on the other rows nor on blocking, threads or prefetching.
TEST(PairProducts, GiveARowTheSameBitsInAnyBatchAndBlocking) {
  const PairShape s{.rows = 35, .n = 72, .k = 300};
  const FloatValues w = random_floats(s.n * s.k, 1), x = random_floats(s.rows * s.k, 2);
  const FloatValues none(static_cast<std::size_t>(s.rows * s.n), std::numeric_limits<float>::quiet_NaN());
  for (const Set& set : sets()) {
    const FloatValues whole = product(*set.kernels, s, w, x, {}, none, {});
    EXPECT_EQ(product(*set.kernels, s, w, x, {}, none, {.tiles = 1, .depth = 128, .ahead = 64, .far = true}, 3), whole)
        << set.kernels->name;
    const FloatValues last(x.end() - s.k, x.end());
    const FloatValues alone = product(*set.kernels, {.rows = 1, .n = s.n, .k = s.k}, w, last, {},
                                      FloatValues(static_cast<std::size_t>(s.n), none.front()), {});
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), whole.end() - s.n)) << set.kernels->name;
  }
}

TEST(PairProducts, ReadBackTheRowsThatWerePacked) {
  const std::int64_t n = 70, k = 33;
  const FloatValues w = random_floats(n * k, 1);
  ThreadPool pool(1);
  for (const Set& set : sets()) {
    const PackedLinear packed(*set.kernels, {.n = n, .k = k, .copies = 1}, true, fill_from(w, k), pool);
    FloatValues row(static_cast<std::size_t>(k));
    for (const std::int64_t i : {0, 31, 32, 69}) {
      packed.read_row(i, row.data());
      for (std::int64_t j = 0; j < k; ++j)
        EXPECT_EQ(row[static_cast<std::size_t>(j)], from_bf16(to_bf16(w[static_cast<std::size_t>(i * k + j)]))) << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll::exec

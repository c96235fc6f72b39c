// SPDX-License-Identifier: Apache-2.0
// Products with integer weights of every instruction set, compared with f64 sums of the same weights.
#include "exec/cpu/integer_linear.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace plimsoll::exec {
namespace {

using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Floats normal(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> draw;
  Floats m(rows, columns);
  for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = draw(generator);
  return m;
}

FillRows rows_of(const Floats& w) {
  return [&w](std::int64_t copy, std::int64_t row, std::int64_t rows, float* out) {
    Eigen::Map<Floats>(out, rows, w.cols()) = w.middleRows(row, rows) * (copy == 0 ? 1.0F : 2.0F);
  };
}

// Integers as a checkpoint has them: random, with scales over three powers of ten.
struct Stored {
  Stored(std::int64_t n, std::int64_t k, const IntegerFormat& of) : format(of), columns(k) {
    std::mt19937_64 generator(7);
    const int most = format.bits == 4 ? 7 : 127;
    std::uniform_int_distribution<int> q_of(-most - 1, most), zero_of(-most - 1, most + 1);
    std::uniform_real_distribution<double> exponent(-4, -1);
    for (std::int64_t i = 0; i < n * k; ++i) q.push_back(static_cast<std::int8_t>(q_of(generator)));
    for (std::int64_t i = 0; i < n * format.groups(k); ++i) {
      scale.push_back(from_f16(to_f16(static_cast<float>(std::pow(10.0, exponent(generator))))));
      zero.push_back(format.zeros ? static_cast<std::int16_t>(std::min(zero_of(generator), 127)) : std::int16_t{0});
    }
  }
  [[nodiscard]] StoredIntegers source() const {
    const auto fill = [this](std::int64_t, std::int64_t row, std::int64_t rows, const IntegerRows& out) {
      const std::int64_t groups = format.groups(columns);
      std::copy_n(q.begin() + row * columns, rows * columns, out.q);
      std::copy_n(scale.begin() + row * groups, rows * groups, out.scale);
      std::copy_n(zero.begin() + row * groups, rows * groups, out.zero);
    };
    return {format, fill};
  }
  // Element [row, column] of the matrix that the integers stand for, by the definition in integers.h.
  [[nodiscard]] float weight(std::int64_t row, std::int64_t column) const {
    std::int64_t place = column;
    if (format.order != nullptr)
      place = std::find(format.order->begin(), format.order->end(), column) - format.order->begin();
    const std::int64_t group = format.group == 0 ? 0 : place / format.group;
    const auto at = static_cast<std::size_t>(row * format.groups(columns) + group);
    return static_cast<float>(q[static_cast<std::size_t>(row * columns + place)] - zero[at]) * scale[at];
  }
  IntegerFormat format;
  std::int64_t columns;
  std::vector<std::int8_t> q;
  std::vector<float> scale;
  std::vector<std::int16_t> zero;
};

Floats weights_of(const IntegerLinear& packed) {
  Floats w(packed.n(), packed.k());
  for (std::int64_t row = 0; row < packed.n(); ++row) packed.read_row(row, w.row(row).data());
  return w;
}

struct IntegerShape {
  std::int64_t rows, n, k;
};
// Numbers of rows below, at and above the height of a tile; columns and depths that do and do not fill a panel or a
// block; and a product of several tiles with more than one block of k.
const std::vector<IntegerShape> kIntegerShapes = {
    {1, 1, 1},     {1, 97, 64},   {2, 33, 176}, {3, 300, 96},  {5, 64, 100}, {7, 31, 65},   {8, 48, 96},
    {13, 130, 33}, {16, 40, 128}, {16, 9, 64},  {17, 97, 257}, {37, 65, 72}, {40, 33, 2208}};

class IntegerKernelsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const KernelSet* set : runnable_kernels())
      for (const IntegerKernels* integers : runnable_integers(*set))
        if (GetParam() == integers->name) kernels = integers;
    if (kernels == nullptr) GTEST_SKIP() << "this machine does not run " << GetParam();
  }

  // Rounding a row of activations to 16 bits moves each by at most 1 / 65278 of the block's largest. The f32 sums of a
  // block add about 1e-7 of the sizes they have on the way.
  void expect_product(const IntegerLinear& packed, const IntegerShape& s) {
    const Floats w = weights_of(packed), x = normal(s.rows, s.k, 2), start = normal(s.rows, s.n, 3),
                 bias = normal(1, s.n, 4);
    const Eigen::MatrixXd product = x.cast<double>() * w.cast<double>().transpose();
    const double largest = x.cwiseAbs().maxCoeff(), sizes = w.cast<double>().cwiseAbs().rowwise().sum().maxCoeff();
    const double tolerance = largest * sizes * (1.0 / 65'278 + 1e-6) + 1e-5;
    IntegerMultiplier multiplier(*kernels, pool);
    for (const bool accumulate : {false, true}) {
      Floats y = accumulate ? start : Floats::Constant(s.rows, s.n, std::numeric_limits<float>::quiet_NaN());
      const ProductRows rows{.copy = 0, .x = x.data(), .y = y.data(), .rows = s.rows};
      multiplier.run(packed, {&rows, 1}, bias.data(), accumulate);
      Eigen::MatrixXd expected = product.rowwise() + bias.row(0).cast<double>();
      if (accumulate) expected += start.cast<double>();
      EXPECT_LT((y.cast<double>() - expected).cwiseAbs().maxCoeff(), tolerance)
          << s.rows << " x " << s.n << " x " << s.k << ", " << packed.layout().bits << " bits";
    }
  }

  ThreadPool pool{2};
  const IntegerKernels* kernels = nullptr;
};

TEST_P(IntegerKernelsTest, MultiplyWeightsThatWereRounded) {
  for (const int bits : {4, 8}) {
    for (const IntegerShape& s : kIntegerShapes) {
      const Floats w = normal(s.n, s.k, 1);
      expect_product(IntegerLinear(*kernels, {.n = s.n, .k = s.k}, bits, rows_of(w), pool), s);
    }
  }
}

// Every format of a checkpoint is read back exactly, because its scales are f16, and multiplied.
TEST_P(IntegerKernelsTest, MultiplyIntegersAsTheyAreStored) {
  const auto reversed = std::make_shared<std::vector<std::int32_t>>(256);
  std::iota(reversed->rbegin(), reversed->rend(), 0);
  for (const int bits : {4, 8}) {
    for (const bool zeros : {false, true}) {
      for (const std::int64_t group : {0, 32, 64, 128}) {
        for (const bool ordered : {false, true}) {
          const Stored stored(70, 256, {bits, group, zeros, ordered ? reversed : nullptr});
          LinearSpec spec{.n = 70, .k = 256};
          spec.integers = stored.source();
          const IntegerLinear packed(*kernels, spec, bits, nullptr, pool);
          std::vector<float> row(256);
          for (std::int64_t r = 0; r < 70; ++r) {
            packed.read_row(r, row.data());
            for (std::int64_t c = 0; c < 256; ++c)
              ASSERT_FLOAT_EQ(row[static_cast<std::size_t>(c)], stored.weight(r, c)) << r << ", " << c;
          }
          for (const std::int64_t rows : {1, 5, 16, 19}) expect_product(packed, {rows, 70, 256});
        }
      }
    }
  }
}

TEST_P(IntegerKernelsTest, ARowHasTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  const Floats w = normal(130, 2176, 1), x = normal(37, 2176, 2);
  for (const int bits : {4, 8}) {
    std::vector<Floats> results;
    for (const int threads : {1, 3}) {
      ThreadPool team(threads);
      const IntegerLinear packed(*kernels, {.n = 130, .k = 2176}, bits, rows_of(w), team);
      IntegerMultiplier multiplier(*kernels, team);
      Floats all(37, 130), alone(1, 130);
      const ProductRows rows{.copy = 0, .x = x.data(), .y = all.data(), .rows = 37};
      multiplier.run(packed, {&rows, 1}, nullptr, false);
      for (const std::int64_t i : {0, 12, 36}) {
        const ProductRows one{.copy = 0, .x = x.row(i).data(), .y = alone.data(), .rows = 1};
        multiplier.run(packed, {&one, 1}, nullptr, false);
        EXPECT_EQ(alone, all.row(i)) << "row " << i;
      }
      results.push_back(all);
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

// Experts: several matrices, each with its own rows, in one call.
TEST_P(IntegerKernelsTest, MultiplyTheRowsOfEveryCopy) {
  const Floats w = normal(40, 64, 1), x = normal(20, 64, 2);
  const IntegerLinear packed(*kernels, {.n = 40, .k = 64, .copies = 2}, 8, rows_of(w), pool);
  IntegerMultiplier multiplier(*kernels, pool);
  Floats y(20, 40), again(20, 40);
  const std::vector<ProductRows> both = {{0, x.data(), y.data(), 3}, {1, x.data() + 3 * 64, y.data() + 3 * 40, 17}};
  multiplier.run(packed, both, nullptr, false);
  for (const ProductRows& product : both) {
    ProductRows single = product;
    single.y = again.data() + (product.y - y.data());
    multiplier.run(packed, {&single, 1}, nullptr, false);
  }
  EXPECT_EQ(y, again);
  // The second copy is twice the first, and a factor of two leaves the integers as they are.
  const ProductRows first{0, x.data() + 3 * 64, again.data() + 3 * 40, 17};
  multiplier.run(packed, {&first, 1}, nullptr, false);
  EXPECT_EQ(y.bottomRows(17), 2.0F * again.bottomRows(17));
}

// With 4 bits or with zero points, a block starts from the sum of its integers. NaN and infinity have no integers.
TEST_P(IntegerKernelsTest, ANumberThatIsNoneSpreadsToItsRowOnly) {
  const Floats w = normal(33, 96, 1);
  const Stored stored(33, 96, {.bits = 8, .group = 32, .zeros = true});
  for (const float none : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Floats x = normal(3, 96, 2), y(3, 33);
    x(1, 40) = none;
    for (const int bits : {4, 8}) {
      const LinearSpec spec{.n = 33, .k = 96, .integers = bits == 8 ? std::optional(stored.source()) : std::nullopt};
      const IntegerLinear packed(*kernels, spec, bits, rows_of(w), pool);
      IntegerMultiplier multiplier(*kernels, pool);
      const ProductRows rows{.copy = 0, .x = x.data(), .y = y.data(), .rows = 3};
      multiplier.run(packed, {&rows, 1}, nullptr, false);
      EXPECT_FALSE(y.row(1).array().isFinite().any()) << bits << " bits, " << none;
      EXPECT_TRUE(y.row(0).array().isFinite().all() && y.row(2).array().isFinite().all()) << bits << " bits, " << none;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, IntegerKernelsTest, ::testing::Values("avx512-vnni", "avx512", "avx2", "portable"),
                         [](const auto& isa) {
                           std::string name = isa.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// 8.5 and 4.5 bits per weight: groups of 32 weights with 16 bits for the scale.
TEST(IntegerLinearTest, TakesTheBytesThatTheOpListPrices) {
  ThreadPool pool(1);
  const Floats w = normal(4096, 1024, 1);
  const KernelSet& set = select_kernels();
  for (const int bits : {4, 8}) {
    const IntegerLinear packed(*runnable_integers(set).front(), {.n = 4096, .k = 1024}, bits, rows_of(w), pool);
    const double each = bits / 8.0 + 2.0 / 32, huge_page = 2 << 20;
    EXPECT_NEAR(static_cast<double>(packed.bytes()), 4096 * 1024 * each, huge_page);
  }
}

// Rounds N(0, 1) to 4 bits in groups of 32. The best of a few scales is better than that of llama.cpp's Q4_0, with
// which the extreme weight becomes -8. With 8 bits the scale is that of Q8_0.
TEST(IntegerLinearTest, RoundsAtLeastAsWellAsLlamaCpp) {
  const Floats w = normal(1, 32 * 512, 5);
  double ours[2] = {0, 0}, theirs[2] = {0, 0};
  for (std::int64_t g = 0; g < 512; ++g) {
    const float* const x = w.data() + 32 * g;
    float extreme = 0;
    for (int i = 0; i < 32; ++i)
      if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
    for (const int bits : {4, 8}) {
      std::int8_t q[32];
      const float scale = quantise_group(x, 32, bits, 8.0F, q);
      const float step = bits == 4 ? extreme / -8 : extreme / 127;
      for (int i = 0; i < 32; ++i) {
        const float rounded = bits == 4 ? std::min(15.0F, std::floor(x[i] / step + 8.5F)) - 8 : std::round(x[i] / step);
        ours[bits / 8] += std::pow(static_cast<double>(static_cast<float>(q[i]) * scale - x[i]), 2);
        theirs[bits / 8] += std::pow(static_cast<double>(rounded * step - x[i]), 2);
      }
    }
  }
  EXPECT_LT(ours[0], 0.97 * theirs[0]);
  EXPECT_LT(ours[1], 1.01 * theirs[1]);
}

// The reciprocal of the step would be infinite, and infinity times the zero is NaN, which no integer represents.
TEST(IntegerLinearTest, AGroupOfVerySmallWeightsIsZero) {
  std::array<float, 32> weights{};
  weights[3] = 1e-38F;
  for (const int bits : {4, 8}) {
    std::array<std::int8_t, 32> q{};
    EXPECT_EQ(quantise_group(weights.data(), 32, bits, 0x1p-126F, q.data()), 0);
    EXPECT_EQ(q, (std::array<std::int8_t, 32>{}));
  }
}

TEST(IntegerLinearTest, HalvesAreRoundedToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits)
    ASSERT_EQ(to_f16(from_f16(static_cast<std::uint16_t>(bits))), bits);
  EXPECT_EQ(to_f16(1.0F + 0x1p-11F), to_f16(1.0F));          // a tie, down to even
  EXPECT_EQ(to_f16(1.0F + 3 * 0x1p-11F), to_f16(1.0F) + 2);  // a tie, up to even
  EXPECT_EQ(to_f16(-0x1p-24F), 0x8001);
  EXPECT_EQ(to_f16(65504.0F), 0x7bff);  // the largest number
  EXPECT_EQ(to_f16(65520.0F), 0x7c00);  // half a unit more is infinity
  EXPECT_EQ(to_f16(-INFINITY), 0xfc00);
  EXPECT_TRUE(std::isnan(from_f16(to_f16(NAN))));
}

}  // namespace
}  // namespace plimsoll::exec

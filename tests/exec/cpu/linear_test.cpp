// SPDX-License-Identifier: Apache-2.0
// Compares products of every instruction set with f64 sums, for ragged shapes.
#include <gtest/gtest.h>

#include <Eigen/Dense>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "exec/cpu/bf16.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/packed_linear.h"

namespace plimsoll::exec {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Shape {
  std::int64_t rows, n, k;
};
// Widths below a tile, of exactly one, and slightly above; one row, as many as a tile, one more, many.
const std::vector<Shape> kShapes = {{1, 1, 1},     {1, 97, 64},   {2, 33, 176}, {3, 32, 16},
                                    {5, 64, 100},  {7, 31, 65},   {8, 48, 96},  {13, 130, 33},
                                    {14, 97, 257}, {15, 200, 64}, {37, 65, 72}, {64, 96, 128}};

Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  Matrix m(rows, columns);
  for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = normal(generator);
  return m;
}

FillRows fill_from(const Matrix& w) {
  return [&w](std::int64_t, std::int64_t row, std::int64_t rows, float* out) {
    Eigen::Map<Matrix>(out, rows, w.cols()) = w.middleRows(row, rows);
  };
}

class LinearKernels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const KernelSet* set : runnable_kernels())
      if (GetParam() == set->name) kernels = set;
    if (kernels == nullptr) GTEST_SKIP() << "this machine does not run " << GetParam();
  }
  const KernelSet* kernels = nullptr;
};

// f32 sums of k products of N(0, 1) have an error of about sqrt(k) 6e-8, far below 1e-5 sqrt(k).
TEST_P(LinearKernels, MultiplyAsF64Does) {
  ThreadPool pool(2);
  for (const bool bf16 : {false, true})
    for (const Shape& s : kShapes) {
      Matrix w = random_matrix(s.n, s.k, 1);
      const Matrix x = random_matrix(s.rows, s.k, 2), start = random_matrix(s.rows, s.n, 3),
                   bias = random_matrix(1, s.n, 4);
      if (bf16) w = w.unaryExpr([](float value) { return from_bf16(to_bf16(value)); });
      const PackedLinear packed(*kernels, {.n = s.n, .k = s.k, .copies = 1, .full_precision = false}, bf16,
                                fill_from(w), pool);
      Multiplier multiplier(pool);
      const Eigen::MatrixXd product = x.cast<double>() * w.cast<double>().transpose();
      for (const bool accumulate : {false, true}) {
        Matrix y = accumulate ? start : Matrix::Constant(s.rows, s.n, std::numeric_limits<float>::quiet_NaN());
        const ProductRows rows{.copy = 0, .x = x.data(), .y = y.data(), .rows = s.rows};
        multiplier.run(packed, {&rows, 1}, bias.data(), accumulate);
        Eigen::MatrixXd expected = product.rowwise() + bias.row(0).cast<double>();
        if (accumulate) expected += start.cast<double>();
        const double error = (y.cast<double>() - expected).cwiseAbs().maxCoeff();
        EXPECT_LT(error, 1e-5 * std::sqrt(static_cast<double>(s.k)))
            << s.rows << " x " << s.n << " x " << s.k << (bf16 ? " bf16" : " f32");
      }
    }
}

// Threads divide the columns, so each number is the same sum on any thread. If the tile is the same, a row's result
// does not depend on its batch.
TEST_P(LinearKernels, GiveTheSameBitsOnAnyNumberOfThreads) {
  const Matrix w = random_matrix(130, 96, 1), x = random_matrix(9, 96, 2);
  std::vector<Matrix> results;
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    const PackedLinear packed(*kernels, {.n = 130, .k = 96, .copies = 1, .full_precision = false}, true, fill_from(w),
                              pool);
    Multiplier multiplier(pool);
    Matrix y(9, 130);
    const ProductRows rows{.copy = 0, .x = x.data(), .y = y.data(), .rows = 9};
    multiplier.run(packed, {&rows, 1}, nullptr, false);
    results.push_back(y);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_P(LinearKernels, ReadBackTheRowsThatWerePacked) {
  ThreadPool pool(1);
  const Matrix w = random_matrix(97, 33, 1);
  const PackedLinear packed(*kernels, {.n = 97, .k = 33, .copies = 1, .full_precision = false}, false, fill_from(w),
                            pool);
  Matrix row(1, 33);
  for (const std::int64_t i : {0, 31, 32, 96}) {
    packed.read_row(i, row.data());
    EXPECT_EQ(row, w.row(i)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, LinearKernels, ::testing::Values("avx512", "avx2", "portable"),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace plimsoll::exec

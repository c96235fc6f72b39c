// SPDX-License-Identifier: Apache-2.0
#include "calibration/op_fit.h"

#include <gtest/gtest.h>

#include "model/op_cost.h"
#include "model/p_norm.h"

namespace plimsoll::calibration {
namespace {

constexpr double kPeak = 200e9, kBandwidth = 30e9;

// Products of m rows with square matrices, from memory-bound to compute-bound.
std::vector<OpSample> gemms(const model::OpCoefficients& truth, double wobble) {
  std::vector<OpSample> samples;
  for (const std::int64_t width : {512, 1024, 2048, 4096})
    for (std::int64_t m = 1; m <= 512; m *= 2) {
      OpSample sample;
      sample.op.kind = model::OpKind::gemm;
      sample.op.m = m;
      sample.op.n = sample.op.k = width;
      sample.op.flops = 2.0 * static_cast<double>(m * width * width);
      sample.op.weight_bytes = 2.0 * static_cast<double>(width * width);
      const double exact = model::roofline_time(truth, {FlopsPerSecond(kPeak), BytesPerSecond(kBandwidth)},
                                                Flops(sample.op.flops), Bytes(sample.op.weight_bytes))
                               .count();
      sample.seconds = exact * (1 + wobble * ((m + width / 512) % 3 == 0 ? 1 : -1));
      samples.push_back(sample);
    }
  return samples;
}

TEST(OpFit, finds_the_coefficients_that_made_the_samples) {
  const model::OpCoefficients truth{
      .compute_efficiency = 0.8, .memory_efficiency = 0.7, .p = 4, .t0 = Seconds(5e-6), .residual = nullptr};
  const OpFit fit =
      fit_op_class(model::OpClass::gemm, gemms(truth, 0), FlopsPerSecond(kPeak), BytesPerSecond(kBandwidth));
  EXPECT_NEAR(fit.coefficients.compute_efficiency, 0.8, 0.01);
  EXPECT_NEAR(fit.coefficients.memory_efficiency, 0.7, 0.01);
  EXPECT_NEAR(fit.coefficients.p, 4, 0.2);
  EXPECT_NEAR(fit.coefficients.t0.count(), 5e-6, 5e-7);
  EXPECT_LT(fit.roofline_error, 0.002);
}

// The table holds log(measured / p-norm) at the grid point of every sample, so no error remains there.
TEST(OpFit, the_residual_table_gives_every_sample_back) {
  const model::OpCoefficients truth{
      .compute_efficiency = 0.8, .memory_efficiency = 0.7, .p = 4, .t0 = Seconds(5e-6), .residual = nullptr};
  const OpFit fit =
      fit_op_class(model::OpClass::gemm, gemms(truth, 0.1), FlopsPerSecond(kPeak), BytesPerSecond(kBandwidth));
  EXPECT_GT(fit.roofline_error, 0.05);
  EXPECT_LT(fit.fit_error, 1e-9);
}

// A hole in the grid at m = 8 of one width is filled from its neighbours along m.
TEST(OpFit, holes_of_the_grid_are_interpolated) {
  const model::OpCoefficients truth{
      .compute_efficiency = 0.8, .memory_efficiency = 0.7, .p = 4, .t0 = Seconds(5e-6), .residual = nullptr};
  std::vector<OpSample> samples = gemms(truth, 0.1);
  std::erase_if(samples, [](const OpSample& s) { return s.op.m == 8 && s.op.n == 1024; });
  const OpFit fit = fit_op_class(model::OpClass::gemm, samples, FlopsPerSecond(kPeak), BytesPerSecond(kBandwidth));
  const model::ResidualTable& table = *fit.coefficients.residual;
  const double low = model::residual_at(table, 2, 20), high = model::residual_at(table, 4, 20);
  EXPECT_NEAR(model::residual_at(table, 3, 20), (low + high) / 2, 1e-12);
}

}  // namespace
}  // namespace plimsoll::calibration

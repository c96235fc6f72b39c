// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/decode_attention.h"
#include "tests/model/shapes.h"

namespace plimsoll::model {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Deployment with_residual(const char* id) {
  return {.shape = shape_named(id), .accelerator = with_decode_residual(with_efficiencies(a100_40()))};
}

TEST(DecodeCurve, WithoutResidualAndHostIsAffineInTheContext) {
  const Deployment d{.shape = shape_named("llama-2-7b")};
  ForwardCost cost(d.inputs());
  const DecodeCurve& curve = cost.decode_curve(16);
  const double at0 = curve.time(0, 0), at1 = curve.time(100e3, 0), middle = curve.time(50e3, 0);
  EXPECT_NEAR(middle, 0.5 * (at0 + at1), 1e-12);
  EXPECT_EQ(curve.next_kink(100), kInfinity);
  EXPECT_EQ(curve.steps_to_kink(100, 0, 16, 0), kInfinity);
}

TEST(DecodeCurve, TellsItsKinks) {
  const Deployment d = with_residual("llama-2-7b");  // grid of mean contexts 128, 512, 2048, 8192
  ForwardCost cost(d.inputs());
  const DecodeCurve& curve = cost.decode_curve(4);
  EXPECT_EQ(curve.next_kink(1), 512);
  EXPECT_EQ(curve.next_kink(512), 2048);
  EXPECT_EQ(curve.next_kink(8192.5), 32768);
  EXPECT_EQ(curve.next_kink(32768), kInfinity);
  EXPECT_EQ(curve.next_windowed_kink(1), kInfinity);
  EXPECT_EQ(curve.steps_to_kink(500, 0, 4, 0), 3);
}

TEST(DecodeCurve, KinksOfWindowedLayersAreInTheWindowedContext) {
  const Deployment d = with_residual("gemma-2-9b");
  ForwardCost cost(d.inputs());
  const DecodeCurve& curve = cost.decode_curve(1);
  EXPECT_EQ(curve.next_windowed_kink(100), 128);
  EXPECT_EQ(curve.next_kink(2000), 2048);
  EXPECT_EQ(curve.steps_to_kink(1000, 500, 1, 1), 12);
  EXPECT_EQ(curve.steps_to_kink(1000, 500, 1, 0), 1048);
}

TEST(DecodeCurve, IsSmoothBetweenKinksAndContinuousAtThem) {
  const Deployment d = with_residual("llama-2-7b");
  ForwardCost cost(d.inputs());
  const DecodeCurve& curve = cost.decode_curve(8);
  for (double kink = curve.next_kink(0); kink < kInfinity; kink = curve.next_kink(kink)) {
    EXPECT_NEAR(curve.time(kink * (1 - 1e-12), 0) / curve.time(kink, 0), 1, 1e-11);
  }
  // Three-point Gauss quadrature over half a segment agrees with the sum of the steps, so there is no hidden kink.
  const double from = 8 * 600, steps = 400;
  double sum = 0, integral = 0;
  for (int i = 0; i < int(steps); ++i) sum += curve.time(from + 8 * (i + 0.5), 0);
  for (const double node : {-std::sqrt(0.6), 0.0, std::sqrt(0.6)}) {
    integral += (node == 0 ? 8. : 5.) / 18 * steps * curve.time(from + 8 * steps * 0.5 * (1 + node), 0);
  }
  EXPECT_NEAR(sum / integral, 1, 1e-7);
}

TEST(DecodeCurve, FullOverlapHasAKinkWhereTheDeviceTakesOver) {
  Deployment d{.shape = shape_named("llama-2-7b")};
  d.engine.overlap = HostOverlap::full;
  {
    ForwardCost device(d.inputs());
    d.engine.host_step = Seconds(device.decode_curve(1).time(1000.5, 0));
  }
  ForwardCost cost(d.inputs());
  const DecodeCurve& curve = cost.decode_curve(1);
  EXPECT_EQ(curve.time(10, 0), curve.time(900, 0));
  EXPECT_NEAR(curve.steps_to_kink(10, 0, 1, 0), 990.5, 1e-3);
  EXPECT_EQ(curve.steps_to_kink(1001, 0, 1, 0), kInfinity);
}

TEST(DecodeResidualSlice, RaisesTimesThatWouldFallOrBeatTheMemory) {
  const AffineTime affine{5e-6, 1e-9, 0.8e-9};
  const ResidualTable steep{{0}, {8, 10, 12, 14}, {1.0, -3.0, 0.2, -2.0}};
  const auto knots = decode_residual_slice(steep, 1, affine);
  ASSERT_EQ(knots.size(), 4u);
  for (std::size_t i = 0; i < knots.size(); ++i) {
    EXPECT_GE(knots[i].time, affine.bound_slope * knots[i].context * (1 - 1e-12));
    if (i > 0) {
      EXPECT_GE(knots[i].time, knots[i - 1].time);
    }
  }
  // A table that needs neither change is kept as it is.
  const ResidualTable mild{{0}, {8, 10, 12, 14}, {0.3, 0.2, 0.1, 0.05}};
  const auto kept = decode_residual_slice(mild, 1, affine);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_DOUBLE_EQ(kept[i].time, (5e-6 + 1e-9 * kept[i].context) * std::exp(mild.log_ratio[i]));
  }
}

// A first measurement that took e times as long is lowered to the larger of the next two, 5 us + 128 ns. It then raises
// the second, 5 us + 16 ns, only up to that value; the others stay.
TEST(DecodeResidualSlice, ASlowMeasurementStaysAlone) {
  const AffineTime affine{5e-6, 1e-9, 0.8e-9};
  const ResidualTable disturbed{{0}, {1, 4, 7, 10}, {1.0, 0, 0, 0}};
  const auto knots = decode_residual_slice(disturbed, 1, affine);
  for (const std::size_t i : {0U, 1U, 2U}) EXPECT_DOUBLE_EQ(knots[i].time, 5e-6 + 128e-9);
  EXPECT_DOUBLE_EQ(knots[3].time, 5e-6 + 1024e-9);
}

}  // namespace
}  // namespace plimsoll::model

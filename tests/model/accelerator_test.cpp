// SPDX-License-Identifier: Apache-2.0
#include "model/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/op_cost.h"
#include "tests/model/shapes.h"

namespace plimsoll::model {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MatmulPeak, WeightOnlyTypesComputeInSixteenBits) {
  const Accelerator a100 = a100_40();
  EXPECT_EQ(matmul_peak(a100, DType::fp16).value, 312e12);
  EXPECT_EQ(matmul_peak(a100, DType::int4).value, 312e12);
  EXPECT_EQ(matmul_peak(a100, DType::int8).value, 312e12);
  EXPECT_EQ(matmul_peak(a100, DType::fp8).value, 312e12);  // no fp8 units
  EXPECT_EQ(matmul_peak(a100, DType::fp32).value, 0);      // not known
}

TEST(MatmulPeak, TypesAreNotSubstitutedOnAGpuButOnACpu) {
  Accelerator t4;
  t4.fp16 = FlopsPerSecond(65e12);
  EXPECT_EQ(matmul_peak(t4, DType::bf16).value, 0);
  Accelerator cpu;
  cpu.fp32 = FlopsPerSecond(200e9);
  EXPECT_EQ(matmul_peak(cpu, DType::bf16).value, 200e9);
}

OpCoefficients& gemm_of(Accelerator& a) { return a.coefficients[static_cast<std::size_t>(OpClass::gemm)]; }

TEST(ValidateCoefficients, AcceptsDatasheetsAndSensibleFits) {
  EXPECT_THAT(validate_coefficients(a10g()), IsEmpty());
  EXPECT_THAT(validate_coefficients(with_decode_residual(with_efficiencies(a100_40()))), IsEmpty());
}

TEST(ValidateCoefficients, RefusesEfficienciesOutsideTheirRange) {
  for (const double bad : {1.01, 0.0, -0.5, std::nan("")}) {
    Accelerator a = a10g();
    gemm_of(a).memory_efficiency = bad;
    EXPECT_THAT(validate_coefficients(a), HasSubstr("gemm: memory_efficiency")) << bad;
  }
  Accelerator a = a10g();
  gemm_of(a).p = 0.5;
  EXPECT_THAT(validate_coefficients(a), HasSubstr("p 0.5"));
  a = a10g();
  gemm_of(a).t0 = Seconds(-1e-6);
  EXPECT_THAT(validate_coefficients(a), HasSubstr("t0"));
  a = a10g();
  a.kernel_gap = Seconds(-1);
  EXPECT_THAT(validate_coefficients(a), HasSubstr("kernel_gap"));
}

TEST(ValidateCoefficients, RefusesMalformedGridsAndFasterThanMemory) {
  const auto with = [](ResidualTable table) {
    Accelerator a = with_efficiencies(a10g());
    gemm_of(a).residual = std::make_shared<const ResidualTable>(std::move(table));
    return validate_coefficients(a);
  };
  EXPECT_THAT(with({{0, 1}, {20}, {0}}), HasSubstr("1 values for a grid of 2 x 1"));
  EXPECT_THAT(with({{1, 0}, {20}, {0, 0}}), HasSubstr("not ascending"));
  EXPECT_THAT(with({{0}, {20}, {std::nan("")}}), HasSubstr("not finite"));
  EXPECT_THAT(with({{}, {}, {}}), HasSubstr("empty"));
  // 2^25 weights are 67 MB: 140 us at efficiency 0.8. exp(-0.5) of it is faster than 600 GB/s ...
  EXPECT_THAT(with({{0}, {25}, {-0.5}}), HasSubstr("of the specified bandwidth"));
  // ... but 2 MB fit the cache.
  EXPECT_THAT(with({{0}, {20}, {-0.5}}), IsEmpty());
}

TEST(PNorm, InterpolatesBetweenSumAndMaximum) {
  EXPECT_DOUBLE_EQ(p_norm(3, 4, 1).value, 7);
  EXPECT_DOUBLE_EQ(p_norm(3, 4, 2).value, 5);
  EXPECT_DOUBLE_EQ(p_norm(3, 4, 2).share_a, 9. / 25);
  EXPECT_NEAR(p_norm(3, 4, 3).value, std::cbrt(91), 1e-14);
  EXPECT_NEAR(p_norm(3, 4, 2.5).value, std::pow(std::pow(3, 2.5) + 32, 0.4), 1e-14);
  EXPECT_DOUBLE_EQ(p_norm(0, 4, 3).value, 4);
  EXPECT_EQ(p_norm(0, 4, 3).share_a, 0);
  EXPECT_EQ(p_norm(0, 0, 3).value, 0);
}

TEST(Residual, IsBilinearAndConstantOutside) {
  const ResidualTable table{{0, 2}, {10, 20}, {0, 1, 2, 5}};
  EXPECT_DOUBLE_EQ(residual_at(table, 0, 10), 0);
  EXPECT_DOUBLE_EQ(residual_at(table, 2, 20), 5);
  EXPECT_DOUBLE_EQ(residual_at(table, 1, 15), 2);
  EXPECT_DOUBLE_EQ(residual_at(table, -3, 30), 1);
  EXPECT_DOUBLE_EQ(residual_at(table, 9, 0), 2);
}

}  // namespace
}  // namespace plimsoll::model

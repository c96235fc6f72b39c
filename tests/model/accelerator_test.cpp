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
  EXPECT_EQ(matmul_peak(a100, DType::fp8).value, 312e12);  // it has no fp8 units
  EXPECT_EQ(matmul_peak(a100, DType::fp32).value, 0);      // unknown
}

TEST(MatmulPeak, FourBitFloatsNeedUnitsOfTheirOwn) {
  Accelerator a = a100_40();
  EXPECT_EQ(matmul_peak(a, DType::nvfp4).value, 312e12);
  a.fp4 = FlopsPerSecond(1248e12);
  EXPECT_EQ(matmul_peak(a, DType::nvfp4).value, 1248e12);
  EXPECT_EQ(matmul_peak(a, DType::mxfp4).value, 312e12);  // the type is for weights only
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
  // ... but 2 MB fit in the cache.
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

// A pointwise op that was measured separately has its own price; the others keep the price of the class.
TEST(PointwiseKinds, AreAPriceOfTheirOwn) {
  Deployment d;
  d.shape = shape_named("llama-2-7b");
  Op op{.kind = OpKind::sample, .id = OpId::sample, .m = 4, .n = 32000};
  op.other_bytes = 4.0 * 4 * 32000;
  const double as_class = OpPricer(d.inputs()).price(op).total();
  d.accelerator.pointwise_kinds["sample"] = {
      .compute_efficiency = 1, .memory_efficiency = 1, .p = 1, .t0 = Seconds(1e-3), .residual = nullptr};
  const OpPricer pricer(d.inputs());
  const double gap = d.accelerator.kernel_gap.count();
  EXPECT_NEAR(pricer.price(op).total(), 1e-3 + op.other_bytes / d.accelerator.memory_bandwidth.value + gap, 1e-9);
  op.kind = OpKind::norm;
  EXPECT_DOUBLE_EQ(pricer.price(op).total(), as_class);
}

// Its table is by rows and width. An op without k must not be looked up as one with k = 0.
TEST(PointwiseKinds, HaveATableByRowsAndWidth) {
  Deployment d;
  d.shape = shape_named("llama-2-7b");
  Op op{.kind = OpKind::norm, .id = OpId::input_norm, .m = 8, .n = 1024};
  op.other_bytes = 4.0 * 8 * 1024;
  OpCoefficients own{.compute_efficiency = 1, .memory_efficiency = 1, .p = 1, .t0 = Seconds(1e-5), .residual = nullptr};
  d.accelerator.kernel_gap = Seconds(0);
  d.accelerator.pointwise_kinds["norm"] = own;
  const double plain = OpPricer(d.inputs()).price(op).total();
  auto table = std::make_shared<ResidualTable>();
  table->x = {0, 3};
  table->y = {10};
  table->log_ratio = {0, std::log(2.0)};
  own.residual = table;
  d.accelerator.pointwise_kinds["norm"] = own;
  EXPECT_NEAR(OpPricer(d.inputs()).price(op).total(), 2 * plain, 1e-12);
}

TEST(PointwiseKinds, AreCheckedByName) {
  Accelerator a = a10g();
  a.pointwise_kinds["embed"].memory_efficiency = -1;
  EXPECT_THAT(validate_coefficients(a), HasSubstr("embed: memory_efficiency -1"));
}

}  // namespace
}  // namespace plimsoll::model

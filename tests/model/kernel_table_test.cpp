// SPDX-License-Identifier: Apache-2.0
#include "model/kernel_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/model/kernels.h"

namespace plimsoll::model {
namespace {

TEST(KernelInterpolation, MeasuredShapesKeepTheirRows) {
  const KernelTable table = square_table();
  const KernelInterpolation interpolation(table);
  const KernelRow row = interpolation.row({1024, 4096});
  EXPECT_TRUE(row.measured);
  EXPECT_FALSE(row.outside);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(row.log_ratio[i], static_cast<double>(table.at(1, i)));
}

// 2048 is midway between 1024 and 4096 in the logarithm; at the centre of a square, all corners have the same weight.
TEST(KernelInterpolation, TheCentreOfASquareIsTheMeanOfItsCorners) {
  const KernelTable table = square_table();
  const KernelRow row = KernelInterpolation(table).row({2048, 2048});
  EXPECT_FALSE(row.measured);
  EXPECT_NEAR(row.log_ratio[0], 0, 1e-6);  // mean of 0.1, 0.1, -0.1, -0.1
  EXPECT_NEAR(row.log_ratio[1], 0.1, 1e-6);
  EXPECT_GT(row.log_ratio[2], 0.1);  // the corner without a measurement does not count: between 0.1 and 0.3
  EXPECT_LT(row.log_ratio[2], 0.3);
}

// A gap in a measured shape is filled from other shapes, not from the neighbouring columns of the same shape.
TEST(KernelInterpolation, FillsGapsOfMeasuredShapesFromOtherShapes) {
  const KernelTable table = square_table();
  const KernelRow row = KernelInterpolation(table).row({4096, 1024});
  EXPECT_TRUE(row.measured);
  EXPECT_GT(row.log_ratio[2], 0.1);
  EXPECT_LT(row.log_ratio[2], 0.3);
}

TEST(KernelInterpolation, WhatIsLeftOutHasNoSay) {
  KernelTable table = square_table();
  const auto at = [&] { return KernelInterpolation(table).row({1024, 1024}, LeaveOut::configuration).log_ratio[0]; };
  const double before = at();
  table.log_ratio[0] = 5;
  EXPECT_EQ(at(), before);
}

TEST(KernelInterpolation, OutsideIsMoreThanADoublingAndAHalfBeyondTheShapes) {
  const KernelTable table = square_table();
  const KernelInterpolation interpolation(table);
  EXPECT_FALSE(interpolation.is_outside({8192, 4096}));  // one doubling: the efficiency has settled
  EXPECT_TRUE(interpolation.is_outside({16384, 4096}));
  EXPECT_TRUE(interpolation.is_outside({1024, 128}));
  const KernelTable attention = attention_table(KernelOp::decode_attention);
  EXPECT_FALSE(KernelInterpolation(attention).is_outside({2, 8, 8, 64}));
  EXPECT_TRUE(KernelInterpolation(attention).is_outside({2, 8, 8, 128}));  // attention has no margin
}

// The weights of ordinary kriging sum to one, so a constant stays constant everywhere.
RC_GTEST_PROP(KernelInterpolationProperties, AConstantStaysAConstant, ()) {
  KernelTable table = square_table();
  const float value = 0.01F * static_cast<float>(*rc::gen::inRange(-100, 100));
  std::fill(table.log_ratio.begin(), table.log_ratio.end(), value);
  table.metric.nugget = 0.01 * *rc::gen::inRange(1, 100);
  const KernelKey key{static_cast<std::uint32_t>(*rc::gen::inRange(1, 100'000)),
                      static_cast<std::uint32_t>(*rc::gen::inRange(1, 100'000))};
  for (const double ratio : KernelInterpolation(table).row(key).log_ratio)
    RC_ASSERT(std::abs(ratio - static_cast<double>(value)) < 1e-5);
}

TEST(LogRatioAt, IsLinearInTheLogarithmAndConstantBeyond) {
  const KernelTable table = square_table();
  const KernelRow row{{0.0, 0.4, 0.2}, true, false};
  EXPECT_DOUBLE_EQ(log_ratio_at(table, row, 1), 0.0);
  EXPECT_DOUBLE_EQ(log_ratio_at(table, row, 4), 0.2);  // halfway from 1 to 16 in doublings
  EXPECT_DOUBLE_EQ(log_ratio_at(table, row, 16), 0.4);
  EXPECT_DOUBLE_EQ(log_ratio_at(table, row, 64), 0.3);
  EXPECT_DOUBLE_EQ(log_ratio_at(table, row, 4096), 0.2);
}

TEST(KernelWork, CountsWhatTheOpListCounts) {
  const KernelWork gemm = kernel_work(KernelOp::gemm, {512, 256}, 8, 2);
  EXPECT_EQ(gemm.flops, 2.0 * 8 * 512 * 256);
  EXPECT_EQ(gemm.stored, 512.0 * 256 * 2);
  EXPECT_EQ(gemm.passing, 8.0 * (512 + 256) * 2);
  // 4 sequences of 100 tokens each, 8 heads over 2 KV heads of 64, cache in 8 bits.
  const KernelWork decode = kernel_work(KernelOp::decode_attention, {4, 8, 2, 64}, 100, 1);
  EXPECT_EQ(decode.flops, 4.0 * (4 * 8 * 64 * 100));  // q k and p v have 2 flops each
  EXPECT_EQ(decode.stored, 4.0 * 2 * (2 * 64) * 100);
  // Causal: token i attends to i tokens.
  EXPECT_EQ(kernel_work(KernelOp::prefill_attention, {1, 8, 8, 64}, 3, 2).flops, 4.0 * 8 * 64 * (1 + 2 + 3));
  // One token reaches exactly its own experts; very many tokens reach all.
  const KernelKey experts{64, 32, 2, 8, 0, 1, 1};
  EXPECT_NEAR(kernel_work(KernelOp::moe, experts, 1, 2).stored, 2.0 * 3 * 64 * 32 * 2, 1e-6);
  EXPECT_NEAR(kernel_work(KernelOp::moe, experts, 1e4, 2).stored, 8.0 * 3 * 64 * 32 * 2, 1e-6);
}

// The busiest of 8 ranks, from times of experts on an H200 that grow with the pairs (vLLM 0.24, fp8, 8192 to 16384
// tokens, power law 1.01; ai-dynamo/aiconfigurator): 0.22 of all pairs with 1 of 128 experts a token, 0.17 with 8 of
// 256, 0.16 with 22 of 512. Without skew it is an eighth.
TEST(KernelWork, TheBusiestRankHasTheShareThatWasMeasured) {
  const auto share = [](const KernelKey& key) {
    const KernelKey whole = {key[0], key[1], key[2], key[3], key[4], 1, 1};
    return kernel_work(KernelOp::moe, key, 12000, 1).flops / kernel_work(KernelOp::moe, whole, 12000, 1).flops;
  };
  EXPECT_NEAR(share({5120, 8192, 1, 128, 101, 1, 8}), 0.22, 0.02);
  EXPECT_NEAR(share({7168, 2048, 8, 256, 101, 1, 8}), 0.17, 0.02);
  EXPECT_NEAR(share({4096, 2688, 22, 512, 101, 1, 8}), 0.16, 0.02);
  EXPECT_NEAR(share({4096, 2688, 22, 512, 0, 1, 8}), 0.125, 1e-12);
}

// Without skew, the benchmark gives every expert a token before it gives one a second token.
TEST(KernelWork, EvenPairsReachAsManyExperts) {
  const KernelKey even{64, 32, 2, 8, 0, 1, 1};
  EXPECT_NEAR(kernel_work(KernelOp::moe, even, 3, 2).stored, 6.0 * 3 * 64 * 32 * 2, 1e-6);
  EXPECT_NEAR(kernel_work(KernelOp::moe, even, 5, 2).stored, 8.0 * 3 * 64 * 32 * 2, 1e-6);
}

// A table may state that the activations of all pairs pass through every rank: 8 times 64 tokens, not those of its
// part.
TEST(KernelWork, AllPairsMayPassThroughEveryRank) {
  KernelTable table;
  table.op = KernelOp::moe;
  table.dtype = "bfloat16";
  const KernelKey key{7168, 2048, 8, 256, 101, 1, 8};
  const KernelWork own = kernel_work(table, key, 64);
  EXPECT_EQ(own.flops, kernel_work(KernelOp::moe, key, 64, 2).flops);
  EXPECT_LT(own.passing, 0.2 * 8 * 64 * (2 * 7168 + 3 * 2048) * 2);
  table.all_pairs = true;
  EXPECT_NEAR(kernel_work(table, key, 64).passing, 8.0 * 64 * (2 * 7168 + 3 * 2048) * 2, 1e-3);
  EXPECT_EQ(kernel_work(table, key, 64).stored, own.stored);
}

// Data that fit the cache are found completely. Beyond that, h = exp(-L (1 - h)), the equation for the extinction of a
// branching process. Published values are 0.4172 for L = 1.5 and 0.2032 for L = 2.
TEST(CacheHits, FallFastBeyondTheCache) {
  const WarmCache cache{Bytes(50e6), 3};
  EXPECT_EQ(cache_hits(cache, Bytes(0)), 1);
  EXPECT_EQ(cache_hits(cache, Bytes(50e6)), 1);
  EXPECT_GT(cache_hits(cache, Bytes(50.001e6)), 0.99);
  EXPECT_NEAR(cache_hits(cache, Bytes(75e6)), 0.4172, 5e-5);
  EXPECT_NEAR(cache_hits(cache, Bytes(100e6)), 0.2032, 5e-5);
  EXPECT_LT(cache_hits(cache, Bytes(1e9)), 1e-6);
}

// 40 MB of stored data take 40 us at 1 TB/s, and a third of that if a cache holds them; activations pass at the rate of
// the memory.
TEST(KernelRoofline, ReadsWhatTheCacheHoldsFaster) {
  const OpCoefficients memory_alone{
      .compute_efficiency = 1, .memory_efficiency = 1, .p = 3, .t0 = Seconds(0), .residual = nullptr};
  const auto time = [&](double stored, const WarmCache& cache) {
    return kernel_roofline(KernelOp::moe, memory_alone, {{FlopsPerSecond(1e15), BytesPerSecond(1e12)}, cache},
                           {0, stored, 2e6});
  };
  const WarmCache cache{Bytes(50e6), 3};
  EXPECT_NEAR(time(40e6, {}), 42e-6, 1e-12);
  EXPECT_NEAR(time(40e6, cache), (40.0 / 3 + 2) * 1e-6, 1e-12);
  EXPECT_NEAR(time(98e6, cache), (98 * (1 - 0.2032 * 2 / 3) + 2) * 1e-6, 1e-8);  // 100 MB in total are twice the cache
}

// A chunk costs what it adds to the whole prefill, plus its own launch.
TEST(ChunkTime, IsTheDifferenceOfTwoWholePrefills) {
  EXPECT_DOUBLE_EQ(chunk_time(10e-6, 100e-6, 40e-6), 70e-6);
  EXPECT_DOUBLE_EQ(chunk_time(10e-6, 40e-6, 50e-6), 10e-6);
}

}  // namespace
}  // namespace plimsoll::model

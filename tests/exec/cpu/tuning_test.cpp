// SPDX-License-Identifier: Apache-2.0
// How products are cut on a machine: defaults by the sizes of caches, and the probe's choice. No test depends on which
// choice wins: it differs from machine to machine and from run to run.
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "exec/cpu/decode_parts.h"
#include "exec/cpu/integer_linear.h"
#include "exec/cpu/packed_linear.h"
#include "exec/cpu/tuner.h"

namespace plimsoll::exec {
namespace {

constexpr std::size_t kKiB = 1024;

// 8 tiles of 14 rows of floats are 448 bytes for each column: 1024 of them are 448 KiB, half of 1 MiB has room for
// them, half of 512 KiB for 512 of them. 8 tiles of 6 rows take 192 bytes a column.
TEST(DefaultTuning, FillsHalfOfTheSecondLevelCache) {
  const auto depth = [](std::size_t second, int rows) {
    return tuning_for({.first = 32 * kKiB, .second = second, .last = 32768 * kKiB}, rows).floats.many.depth;
  };
  EXPECT_EQ(depth(2048 * kKiB, 14), 1024);
  EXPECT_EQ(depth(1024 * kKiB, 14), 1024);
  EXPECT_EQ(depth(512 * kKiB, 14), 512);
  EXPECT_EQ(depth(512 * kKiB, 6), 1024);
  EXPECT_EQ(depth(1, 14), 128);
}

TEST(DefaultTuning, UsesInstructionsThatKeepActivationsInFull) {
  EXPECT_EQ(default_tuning().bf16, model::Bf16Products::f32);
}

TEST(DefaultTuning, OrdersTheCachesOfThisMachine) {
  const CacheSizes sizes = cache_sizes();
  EXPECT_LE(sizes.first, sizes.second);
  EXPECT_LE(sizes.second, sizes.last);
}

// Sums are added in the order of k whatever the blocks are, so blocks change no bit.
TEST(Blockings, ChangeNoBit) {
  std::mt19937 generator(3);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(generator() % static_cast<unsigned>(most - least + 1));
  };
  const std::int64_t n = 70, k = 520;
  std::vector<float> w(static_cast<std::size_t>(n * k));
  for (float& value : w) value = std::normal_distribution<float>()(generator);
  const FillRows fill = [&](std::int64_t, std::int64_t row, std::int64_t rows, float* out) {
    std::copy_n(w.begin() + row * k, rows * k, out);
  };
  ThreadPool pool(2);
  for (const KernelSet* set : runnable_kernels()) {
    const IntegerKernels& integers = *runnable_integers(*set).front();
    const PackedLinear floats(*set, {.n = n, .k = k, .copies = 1}, true, fill, pool);
    const IntegerLinear bytes(integers, {.n = n, .k = k, .copies = 1}, 8, fill, pool);
    for (const std::int64_t rows : {1, 4, 16, 75}) {
      std::vector<float> x(static_cast<std::size_t>(rows * k), 0.0F);
      for (float& value : x) value = std::normal_distribution<float>()(generator);
      std::vector<float> expected(static_cast<std::size_t>(rows * n)), expected_bytes = expected, y = expected;
      const auto run = [&](const model::CpuBlockings& blockings, std::vector<float>& of_floats,
                           std::vector<float>& of_bytes) {
        Multiplier multiplier(pool, blockings);
        IntegerMultiplier integer_multiplier(integers, pool, blockings);
        const ProductRows product{.copy = 0, .x = x.data(), .y = of_floats.data(), .rows = rows};
        multiplier.run(floats, {&product, 1}, nullptr, false);
        const ProductRows of_integers{.copy = 0, .x = x.data(), .y = of_bytes.data(), .rows = rows};
        integer_multiplier.run(bytes, {&of_integers, 1}, nullptr, false);
      };
      run({}, expected, expected_bytes);
      for (int round = 0; round < 10; ++round) {
        const model::CpuBlocking blocking{
            .tiles = draw(1, 20), .depth = 128 * draw(1, 5), .ahead = draw(0, 9999), .far = draw(0, 1) == 1};
        std::vector<float> got(y.size()), got_bytes(y.size());
        run({.one = blocking, .tile = blocking, .few = blocking, .many = blocking}, got, got_bytes);
        ASSERT_EQ(got, expected) << set->name << ", " << rows << " rows, depth " << blocking.depth;
        ASSERT_EQ(got_bytes, expected_bytes) << set->name << ", " << rows << " rows, depth " << blocking.depth;
      }
    }
  }
}

constexpr std::size_t kLittle = std::size_t{16} << 20U;  // whatever the caches are

TEST(Tuner, ChoosesWhatTheKernelsRun) {
  const KernelSet& kernels = *runnable_kernels().front();
  const TunedMachine tuned = tune_machine(kernels, {.cores = 2, .most_bytes = kLittle});
  EXPECT_GT(tuned.read_bandwidth, 0);
  EXPECT_GT(tuned.multiply_add, 0);
  ASSERT_EQ(tuned.products.size(), 12U);  // 1, 4, 16 and 64 rows with floats, 8 and 4 bits
  for (const TunedProduct& product : tuned.products) {
    EXPECT_GT(product.fraction, 0) << product.name;
    EXPECT_GE(product.gain, 1) << product.name;  // the default is kept unless another choice is faster
    EXPECT_EQ(product.chosen.depth % 128, 0) << product.name;
  }
  bool runs = tuned.tuning.bf16 == model::Bf16Products::f32;
  for (const ProductKernels* pairs : runnable_pairs(kernels))
    runs = runs || pairs->name == model::kBf16ProductNames[static_cast<std::size_t>(tuned.tuning.bf16)];
  EXPECT_TRUE(runs);
  EXPECT_GE(tuned.parts_gain, 1);
  EXPECT_EQ(tuned.parts_gain == 1, tuned.tuning.decode_parts == model::CpuTuning{}.decode_parts);
}

// Four parts for each of two threads, of three sequences: three parts each. One thread needs no parts. A single KV head
// is divided by its queries if it alone must occupy four threads.
TEST(DecodeParts, GiveEveryThreadSeveralTasks) {
  EXPECT_EQ(decode_parts({.rows = 3, .heads = 8, .queries = 4}, 2, 4).heads, 3);
  EXPECT_EQ(decode_parts({.rows = 1, .heads = 4, .queries = 4}, 2, 4).heads, 4);
  EXPECT_EQ(decode_parts({.rows = 1, .heads = 8, .queries = 4}, 1, 4).heads, 1);
  EXPECT_EQ(decode_parts({.rows = 1, .heads = 1, .queries = 7}, 4, 4).queries, 4);
}

TEST(Tuner, StopsWhenItIsTold) {
  struct Stop : std::runtime_error {
    using runtime_error::runtime_error;
  };
  EXPECT_THROW((void)tune_machine(*runnable_kernels().front(),
                                  {.seconds = 3600, .check_in = [] { throw Stop("stop"); }, .most_bytes = kLittle}),
               Stop);
}

}  // namespace
}  // namespace plimsoll::exec

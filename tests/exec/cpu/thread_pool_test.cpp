// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace plimsoll::exec {
namespace {

class Pool : public testing::TestWithParam<int> {};

TEST_P(Pool, VisitsEveryItemOnce) {
  ThreadPool pool(GetParam());
  for (const std::int64_t count : {0, 1, 2, 3, 7, 1000}) {
    std::vector<std::atomic<int>> parts(static_cast<std::size_t>(count)), items(static_cast<std::size_t>(count));
    pool.parallel_for(count, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++parts[static_cast<std::size_t>(i)];
    });
    pool.for_each(count, [&](int, std::int64_t i) { ++items[static_cast<std::size_t>(i)]; });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i], 1);
      EXPECT_EQ(items[i], 1);
    }
  }
}

// Short pieces of work behind each other: nobody misses one, however the threads fall asleep in between.
TEST_P(Pool, LosesNoneOfManyRounds) {
  ThreadPool pool(GetParam());
  std::atomic<std::int64_t> sum = 0;
  for (int round = 0; round < 2000; ++round) pool.run([&](int) { ++sum; });
  EXPECT_EQ(sum, 2000 * GetParam());
}

TEST_P(Pool, RethrowsAndGoesOn) {
  ThreadPool pool(GetParam());
  EXPECT_THROW(pool.run([](int) { throw std::runtime_error("no"); }), std::runtime_error);
  std::atomic<int> ran = 0;
  pool.run([&](int) { ++ran; });
  EXPECT_EQ(ran, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Threads, Pool, testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/thread_communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "exec/rank_threads.h"
#include "model/error.h"

namespace plimsoll::exec {
namespace {

// Runs work(endpoint) on one thread per rank.
template <class Work>
void on_ranks(int size, Work&& work) {
  auto group = make_thread_group(size);
  std::vector<std::jthread> threads;
  for (auto& endpoint : group) threads.emplace_back([&work, &endpoint] { work(*endpoint); });
}

class Group : public ::testing::TestWithParam<int> {};

// 2^24 + 1 is not representable in f32, so a sum depends on its order. Equal bits therefore prove the order of ranks.
TEST_P(Group, all_reduce_adds_in_the_order_of_ranks_on_every_rank) {
  constexpr std::int64_t kElements = 5000;
  std::vector<std::vector<float>> data(static_cast<std::size_t>(GetParam()), std::vector<float>(kElements));
  std::vector<float> expected(kElements, 0.0F);
  for (std::size_t r = 0; r < data.size(); ++r)
    for (std::size_t i = 0; i < kElements; ++i) {
      data[r][i] = r == 0 ? 16777216.0F : 1.0F + static_cast<float>(i % 3);
      expected[i] += data[r][i];
    }
  on_ranks(GetParam(), [&](Communicator& c) {
    c.all_reduce(data[static_cast<std::size_t>(c.rank())].data(), kElements, model::DType::fp32, nullptr);
  });
  for (const auto& result : data) EXPECT_EQ(result, expected);
}

TEST_P(Group, all_gather_puts_ranks_behind_each_other) {
  const auto size = static_cast<std::size_t>(GetParam());
  std::vector<std::vector<int>> out(size, std::vector<int>(size * 2));
  on_ranks(GetParam(), [&](Communicator& c) {
    const int in[2] = {c.rank(), 10 * c.rank()};
    c.all_gather(in, out[static_cast<std::size_t>(c.rank())].data(), sizeof in, nullptr);
  });
  for (const auto& row : out)
    for (std::size_t r = 0; r < size; ++r) {
      EXPECT_EQ(row[2 * r], static_cast<int>(r));
      EXPECT_EQ(row[2 * r + 1], static_cast<int>(10 * r));
    }
}

TEST_P(Group, many_rounds_never_mix) {
  std::atomic<int> wrong = 0;
  on_ranks(GetParam(), [&](Communicator& c) {
    for (int round = 0; round < 500; ++round) {
      float value = static_cast<float>(round + c.rank());
      c.all_reduce(&value, 1, model::DType::fp32, nullptr);
      const int size = c.size();
      if (value != static_cast<float>(size * round + size * (size - 1) / 2)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Group, ::testing::Values(1, 2, 3, 4));

TEST(ThreadGroup, a_failing_rank_wakes_those_that_wait) {
  std::atomic<int> failed = 0;
  on_ranks(3, [&](Communicator& c) {
    if (c.rank() == 1) {
      c.abort();
      return;
    }
    try {
      c.barrier();
    } catch (const DeviceError&) {
      ++failed;
    }
  });
  EXPECT_EQ(failed, 2);
}

// rank_threads.h: a rank may have peers in other processes, which must be woken too.
TEST(RankThreads, a_single_rank_that_throws_calls_on_failure_too) {
  for (const int ranks : {1, 2}) {
    RankThreads threads(ranks);
    std::atomic<int> calls = 0;
    EXPECT_THROW(threads.on_all([](int) { throw DeviceError("no memory"); }, [&] { ++calls; }), DeviceError);
    EXPECT_EQ(calls, 1) << ranks;
  }
}

}  // namespace
}  // namespace plimsoll::exec

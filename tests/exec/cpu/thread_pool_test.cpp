// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "exec/brief_wait.h"

namespace plimsoll::exec {
namespace {

// Returns true if `ready` becomes true; gives up after longer than any machine needs.
template <class Ready>
bool comes_true(const Ready& ready) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

class Pool : public ::testing::TestWithParam<int> {};

TEST_P(Pool, VisitsEveryItemOnce) {
  ThreadPool pool(GetParam());
  for (const std::int64_t count : {0, 1, 2, 3, 7, 1000}) {
    for (const std::int64_t grain : {1, 3, 64}) {
      std::vector<std::atomic<int>> parts(static_cast<std::size_t>(count)), items(static_cast<std::size_t>(count));
      std::atomic<bool> whole = true;
      pool.parallel_for(count, grain, [&](int, std::int64_t begin, std::int64_t end) {
        if (begin % grain != 0 || (end % grain != 0 && end != count) || begin >= end) whole = false;
        for (std::int64_t i = begin; i < end; ++i) ++parts[static_cast<std::size_t>(i)];
      });
      pool.for_each(count, [&](int, std::int64_t i) { ++items[static_cast<std::size_t>(i)]; });
      EXPECT_TRUE(whole);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_EQ(parts[i], 1);
        EXPECT_EQ(items[i], 1);
      }
    }
  }
}

// Short consecutive pieces of work. No round may lose work or execute it in the next round, however threads fall asleep
// in between. Every item records its round.
TEST_P(Pool, KeepsManyRoundsApart) {
  ThreadPool pool(GetParam());
  std::atomic<std::int64_t> sum = 0, strays = 0, now = 0;
  for (std::int64_t round = 0; round < 2000; ++round) {
    now = round;
    const std::int64_t count = 1 + round % 7;
    const auto body = [&, round](int, std::int64_t) {
      ++sum;
      if (now != round) ++strays;
    };
    if (round % 2 == 0)
      pool.for_each(count, body);
    else
      pool.parallel_for(count, [&](int thread, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) body(thread, i);
      });
  }
  std::int64_t expected = 0;
  for (std::int64_t round = 0; round < 2000; ++round) expected += 1 + round % 7;
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(strays, 0);
}

// Each thread number owns memory, so two threads must never use the same number at once.
TEST_P(Pool, GivesANumberToOneThreadAtATime) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> inside(static_cast<std::size_t>(GetParam()));
  std::atomic<bool> shared = false;
  for (int round = 0; round < 200; ++round) {
    pool.for_each(16, [&](int thread, std::int64_t) {
      std::atomic<int>& mine = inside.at(static_cast<std::size_t>(thread));
      if (++mine != 1) shared = true;
      --mine;
    });
  }
  EXPECT_FALSE(shared);
}

TEST_P(Pool, RethrowsAndGoesOn) {
  ThreadPool pool(GetParam());
  EXPECT_THROW(pool.for_each(8, [](int, std::int64_t) { throw std::runtime_error("no"); }), std::runtime_error);
  std::atomic<int> ran = 0;
  pool.for_each(8, [&](int, std::int64_t) { ++ran; });
  EXPECT_EQ(ran, 8);
}

INSTANTIATE_TEST_SUITE_P(Threads, Pool, ::testing::Values(1, 2, 3, 5));

// A worker that keeps one piece until all others are done acts like a thread that lost its core. The caller takes what
// that worker has not claimed, even of its own part. With fixed parts per thread this test would never end.
TEST(ThreadPool, DoesTheWorkOfAThreadThatIsHeldUp) {
  ThreadPool pool(2);
  constexpr std::int64_t kCount = 64;
  std::atomic<std::int64_t> done = 0, of_worker = 0;
  std::atomic<bool> worker_came = false, gave_up = false;
  pool.parallel_for(kCount, [&](int thread, std::int64_t begin, std::int64_t end) {
    const std::int64_t size = end - begin;
    if (thread == 1 && !worker_came.exchange(true)) {
      of_worker = size;
      if (!comes_true([&] { return done == kCount - size; })) gave_up = true;
    } else if (thread == 0 && !comes_true([&] { return worker_came.load(); })) {
      gave_up = true;
    }
    done += size;
  });
  EXPECT_FALSE(gave_up);
  EXPECT_EQ(done, kCount);
  EXPECT_EQ(of_worker, kCount / 4);  // half of its half: the first claim
}

// Far more threads than cores, and other threads that compete for them: all work must be done exactly once.
TEST(ThreadPool, IsRightOnCoresThatOthersUse) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> neighbours, drivers;
  for (unsigned i = 0; i < 2 * std::max(1U, std::thread::hardware_concurrency()); ++i)
    neighbours.emplace_back([&] {
      while (!stop) pause_briefly();
    });
  std::atomic<int> wrong = 0;
  for (int driver = 0; driver < 3; ++driver) {
    drivers.emplace_back([&wrong] {
      ThreadPool pool(4);
      std::vector<std::int64_t> values(50);
      for (std::int64_t round = 1; round <= 60; ++round) {
        pool.parallel_for(50, 3, [&](int, std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] += i;
        });
        for (std::int64_t i = 0; i < 50; ++i) wrong += values[static_cast<std::size_t>(i)] != round * i ? 1 : 0;
      }
    });
  }
  for (std::thread& driver : drivers) driver.join();
  stop = true;
  for (std::thread& neighbour : neighbours) neighbour.join();
  EXPECT_EQ(wrong, 0);
}

TEST(BriefWait, WakesWhoSleepsOnAWord) {
  std::atomic<std::uint32_t> word = 0;
  std::atomic<bool> awake = false;
  std::thread sleeper([&] {
    while (word == 0) sleep_while(word, 0);
    awake = true;
  });
  word = 1;
  EXPECT_TRUE(comes_true([&] {
    wake(word, 1);
    return awake.load();
  }));
  sleeper.join();
}

TEST(BriefWait, SpinsForAWhileOnly) {
  EXPECT_TRUE(spin_briefly([] { return true; }));
  EXPECT_FALSE(spin_briefly([] { return false; }));
}

}  // namespace
}  // namespace plimsoll::exec

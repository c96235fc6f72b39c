// SPDX-License-Identifier: Apache-2.0
#include "calibration/ladder.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

namespace plimsoll::calibration {
namespace {

// Six numbers of users (1 to 32) and four pairs of lengths.
std::vector<Rung> usual() { return ordered_rungs(32, {128, 512}, {16, 64}); }

TEST(Ladder, HasEveryPairOfUsersAndLengthsOnce) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> all;
  for (const Rung& rung : usual()) all.emplace(rung.users, rung.input, rung.output);
  EXPECT_EQ(all.size(), 24);
  EXPECT_EQ(usual().size(), 24);
}

TEST(Ladder, TheFirstRunsSpanUsersAndLengths) {
  const std::vector<Rung> rungs = usual();
  std::set<std::int64_t> users;
  std::set<std::pair<std::int64_t, std::int64_t>> lengths;
  for (std::size_t i = 0; i < 6; ++i) {
    users.insert(rungs[i].users);
    lengths.emplace(rungs[i].input, rungs[i].output);
  }
  EXPECT_EQ(users, (std::set<std::int64_t>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(lengths.size(), 4);
  EXPECT_EQ(rungs[0].users, 1);
  EXPECT_EQ(rungs[1].users, 32);
  EXPECT_EQ(rungs[1].input * rungs[1].output, 128 * 16) << "the first runs are short";
}

// A server whose prompt tokens take 4 ms each and whose steps take 30 ms, as llama.cpp's on one core. A ladder with all
// lengths of one number of users together had 6 runs within 420 s, of 1 and 32 users only.
TEST(Ladder, AShortTimeStillSpansAllUsers) {
  const auto seconds_of = [](const Rung& r) {
    return static_cast<double>(r.requests()) *
           (0.004 * static_cast<double>(r.input) + 0.03 * static_cast<double>(r.output) / static_cast<double>(r.users));
  };
  constexpr double kSeconds = 420;
  const std::vector<Rung> rungs = usual();
  LadderBudget budget(rungs, kSeconds);
  double now = 0;
  std::set<std::int64_t> users;
  int measured = 0;
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    if (!budget.fits(i, now)) continue;
    now += seconds_of(rungs[i]);
    users.insert(rungs[i].users);
    ++measured;
  }
  EXPECT_LE(now, kSeconds);
  EXPECT_EQ(users.size(), 6);
  EXPECT_GE(measured, 12);
}

// 10 s for 6 requests of one user. Twelve requests of four users take at most 20 s, with prompts four times as long 80
// s.
TEST(Ladder, ARunThatWouldTakeTooLongIsLeftOut) {
  const std::vector<Rung> rungs{{1, 128, 16}, {1, 128, 16}, {4, 128, 16}, {4, 512, 16}, {1, 128, 16}};
  LadderBudget budget(rungs, 50);
  EXPECT_TRUE(budget.fits(0, 0));
  EXPECT_TRUE(budget.fits(1, 10));
  EXPECT_TRUE(budget.fits(2, 20));
  EXPECT_FALSE(budget.fits(3, 39)) << "19 s for the same run with shorter prompts: at most 76 s";
  EXPECT_TRUE(budget.fits(4, 39)) << "a shorter one still fits";
}

}  // namespace
}  // namespace plimsoll::calibration

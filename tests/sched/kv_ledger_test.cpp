// SPDX-License-Identifier: Apache-2.0
#include "sched/kv_ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace plimsoll::sched {
namespace {

KvLedger ledger(Blk blocks, Tok block_tokens) {
  return KvLedger({.blocks = blocks, .block_tokens = block_tokens, .prefix_caching = false});
}

// A request with `computed` tokens, in the decode group.
void join(KvLedger& kv, ReqId id, Tok computed) {
  kv.open(id, {});
  kv.grow(id, computed);
  kv.join_group(id, computed);
}

TEST(KvLedger, GrowsOnDemand) {
  KvLedger kv = ledger(10, 4);
  kv.open(0, {});
  EXPECT_EQ(kv.need(0, 5), 2);
  kv.grow(0, 5);
  EXPECT_EQ(kv.held(0), 2);
  EXPECT_EQ(kv.free(), 8);
  kv.grow(0, 3);  // these tokens are covered already
  EXPECT_EQ(kv.held(0), 2);
  EXPECT_EQ(kv.need(0, 8), 0);
  EXPECT_EQ(kv.need(0, 9), 1);
  kv.release(0, 5);
  EXPECT_EQ(kv.free(), 10);
}

TEST(KvLedger, TheGroupTakesBlocksAsItCrossesThem) {
  KvLedger kv = ledger(10, 4);
  join(kv, 0, 4);  // needs a block in the next step
  join(kv, 1, 6);  // needs a block three steps from now
  EXPECT_EQ(kv.group_growth(1), 1);
  EXPECT_EQ(kv.group_growth(2), 1);
  EXPECT_EQ(kv.group_growth(3), 2);
  EXPECT_EQ(kv.group_growth(8), 4);
  EXPECT_EQ(kv.group_steps(0), 0);
  EXPECT_EQ(kv.group_steps(1), 2);
  EXPECT_EQ(kv.group_steps(2), 4);
  kv.advance_group(3);
  EXPECT_EQ(kv.held(0), 2);
  EXPECT_EQ(kv.held(1), 3);
  EXPECT_EQ(kv.free(), 5);
}

TEST(KvLedger, ReservedRequestsDoNotGrow) {
  KvLedger kv = ledger(10, 4);
  kv.open(0, {});
  kv.reserve(0, 20);
  kv.join_group(0, 4);
  EXPECT_EQ(kv.group_growth(100), 0);
  EXPECT_EQ(kv.group_steps(0), kForever);
  kv.advance_group(16);
  EXPECT_EQ(kv.held(0), 5);
  kv.release(0, 0);
  EXPECT_EQ(kv.free(), 10);
}

TEST(KvLedger, SwapsWhatIsHeld) {
  KvLedger kv = ledger(10, 4);
  join(kv, 0, 7);
  kv.advance_group(2);
  kv.swap_out(0);
  EXPECT_EQ(kv.free(), 10);
  EXPECT_EQ(kv.swapped(0), 3);
  EXPECT_EQ(kv.swapped(), 3);
  kv.swap_in(0);
  EXPECT_EQ(kv.held(0), 3);
  EXPECT_EQ(kv.swapped(), 0);
  kv.swap_out(0);
  kv.close(0);  // the swapped-out request has ended
  EXPECT_EQ(kv.swapped(), 0);
}

// Counts every request separately, one step at a time.
struct Naive {
  Tok block;
  std::vector<Tok> computed;  // by request; -1 if it does not exist
  std::vector<bool> grows;
  [[nodiscard]] Blk held(std::size_t i) const { return (computed[i] + block - 1) / block; }
  [[nodiscard]] Blk growth(std::int64_t steps) const {
    Blk sum = 0;
    for (std::size_t i = 0; i < computed.size(); ++i)
      if (computed[i] >= 0 && grows[i]) sum += (computed[i] + steps + block - 1) / block - held(i);
    return sum;
  }
  [[nodiscard]] Blk held() const {
    Blk sum = 0;
    for (std::size_t i = 0; i < computed.size(); ++i) sum += computed[i] >= 0 ? held(i) : 0;
    return sum;
  }
};

void expect_same(const KvLedger& kv, const Naive& naive) {
  RC_ASSERT(kv.in_use() == naive.held());
  for (std::size_t i = 0; i < naive.computed.size(); ++i)
    if (naive.computed[i] >= 0) RC_ASSERT(kv.held(static_cast<ReqId>(i)) == naive.held(i));
  for (const std::int64_t steps : {1, 2, 5, 17}) {
    RC_ASSERT(kv.group_growth(steps) == naive.growth(steps));
    const std::int64_t most = kv.group_steps(steps);
    if (most == kForever)
      RC_ASSERT(naive.growth(1000) == 0);
    else
      RC_ASSERT(naive.growth(most) <= steps && naive.growth(most + 1) > steps);
  }
  double sum = 0;
  for (int j = 0; j < 7; ++j)
    sum += static_cast<double>(naive.growth(j + 1)) * (2 + 0.5 * (j - 3) + 0.25 * (j - 3) * (j - 3));
  RC_ASSERT(std::abs(kv.weighted_growth(7, 2, 0.5, 0.25) - sum) < 1e-9);
}

RC_GTEST_PROP(KvLedgerProperty, TheGroupIsTheSumOfItsMembers, ()) {
  const Tok block = *rc::gen::element<Tok>(1, 2, 3, 4, 16);
  KvLedger kv = ledger(100000, block);
  Naive naive{block, {}, {}};
  const auto any = [&]() -> std::size_t {  // returns a live request, or the end
    std::vector<std::size_t> there;
    for (std::size_t i = 0; i < naive.computed.size(); ++i)
      if (naive.computed[i] >= 0) there.push_back(i);
    return there.empty() ? naive.computed.size() : *rc::gen::elementOf(there);
  };
  const int count = *rc::gen::inRange(1, 40);
  for (int n = 0; n < count; ++n) {
    const int what = *rc::gen::inRange(0, 7);
    const std::size_t who = what < 3 ? naive.computed.size() : any();
    const auto id = static_cast<ReqId>(who);
    if (what < 3) {
      const Tok computed = *rc::gen::inRange<Tok>(1, 40);
      join(kv, id, computed);
      naive.computed.push_back(computed);
      naive.grows.push_back(true);
    } else if (what == 3) {
      const auto steps = *rc::gen::inRange<Tok>(1, 30);
      kv.advance_group(steps);
      for (std::size_t i = 0; i < naive.computed.size(); ++i)
        if (naive.computed[i] >= 0 && naive.grows[i]) naive.computed[i] += steps;
    } else if (who < naive.computed.size() && what == 4 && naive.grows[who]) {
      kv.advance_member(id);
      ++naive.computed[who];
    } else if (who < naive.computed.size() && what == 5) {
      kv.leave_group(id);  // it is swapped out and in again, or about to leave
      naive.grows[who] = false;
    } else if (who < naive.computed.size() && what == 6) {
      kv.release(id, 0);
      kv.close(id);
      naive.computed[who] = -1;
    }
    expect_same(kv, naive);
  }
}

}  // namespace
}  // namespace plimsoll::sched

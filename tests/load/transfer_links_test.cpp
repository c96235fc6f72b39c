// SPDX-License-Identifier: Apache-2.0
#include "load/transfer_links.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <vector>

#include "load/pools.h"

namespace plimsoll::load {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr Nanos kMs = 1'000'000;

/// Opens transfers of one part at stated times and returns when each ends.
struct Send {
  double at_s = 0;
  std::size_t source = 0, target = 0;
  TransferLinks::Part part;
};

std::map<std::size_t, Nanos> run(TransferLinks& links, const std::vector<Send>& sends) {
  std::map<std::size_t, Nanos> ends;
  std::map<TransferLinks::Id, std::size_t> who;
  std::size_t next = 0;
  while (true) {
    const Nanos send = next < sends.size() ? std::llround(sends[next].at_s * 1e9) : sched::kNever;
    const Nanos now = std::min(send, links.next_event());
    if (now == sched::kNever) return ends;
    while (const auto id = links.take(now)) ends[who.at(*id)] = now;
    if (send > now) continue;
    const Send& s = sends[next];
    const TransferLinks::Id id = links.open(s.source, s.target);
    who[id] = next++;
    links.add(id, s.part, s.at_s);
    links.finish(id, s.at_s);
  }
}

// 40 MB at 40 GB/s take 1 ms; 0.5 ms of launching come before.
TEST(TransferLinksTest, TakesItsLaunchAndItsBytesOverTheRate) {
  TransferLinks links({40e9, 40e9, kInfinite}, 1, 1);
  const auto ends = run(links, {{0, 0, 0, {.fixed_s = 0.5e-3, .bytes = 40e6}}});
  EXPECT_EQ(ends.at(0), 1'500'000);
}

// A sends 3 MB from 0 at 1 GB/s. B sends 1 MB from the same source from 1 ms on: both get half until B has sent its
// 1 MB at 3 ms. By then A has sent 1 + 1 MB; the third takes until 4 ms.
TEST(TransferLinksTest, SharesALinkAndRecomputesWhenATransferStartsOrEnds) {
  TransferLinks links({1e9, kInfinite, kInfinite}, 1, 2);
  const auto ends = run(links, {{0, 0, 0, {.bytes = 3e6}}, {1e-3, 0, 1, {.bytes = 1e6}}});
  EXPECT_EQ(ends.at(1), 3 * kMs);
  EXPECT_EQ(ends.at(0), 4 * kMs);
  EXPECT_DOUBLE_EQ(links.bytes_sent(), 4e6);
}

// The rate is the smallest of the three: two transfers at the source get 2 GB/s each, one alone at the target 3 GB/s,
// on the path 1 GB/s.
TEST(TransferLinksTest, IsLimitedByTheSlowestOfSourceTargetAndPath) {
  TransferLinks links({4e9, 3e9, 1e9}, 1, 2);
  const auto ends = run(links, {{0, 0, 0, {.bytes = 1e6}}, {0, 0, 1, {.bytes = 1e6}}});
  EXPECT_EQ(ends.at(0), kMs);
  TransferLinks wider({4e9, 3e9, kInfinite}, 1, 2);
  const auto shared = run(wider, {{0, 0, 0, {.bytes = 2e6}}, {0, 0, 1, {.bytes = 2e6}}});
  EXPECT_EQ(shared.at(1), kMs);  // 2 MB at 4 / 2 GB/s
}

TEST(TransferLinksTest, TakesNoTimeWithoutALimit) {
  TransferLinks links({}, 1, 1);
  EXPECT_EQ(run(links, {{2e-3, 0, 0, {.bytes = 1e12}}}).at(0), 2 * kMs);
}

// Parts follow one another: the second is ready at 5 ms, takes 1 ms and may not arrive before 8 ms.
TEST(TransferLinksTest, SendsPartsInOrderWhenTheyAreReady) {
  TransferLinks links({1e9, 1e9, kInfinite}, 1, 1);
  const TransferLinks::Id id = links.open(0, 0);
  links.add(id, {.bytes = 2e6}, 0);
  links.add(id, {.ready_s = 5e-3, .bytes = 1e6, .not_before_s = 8e-3}, 0);
  links.finish(id, 0);
  EXPECT_FALSE(links.take(8 * kMs - 1));
  EXPECT_EQ(links.take(8 * kMs), id);
  EXPECT_EQ(links.open_transfers(), 0);
}

// B is aborted at 1 ms, when both have sent half a megabyte: A's last 1.5 MB take 1.5 ms more.
TEST(TransferLinksTest, GivesTheShareOfAnAbortedTransferToTheOthers) {
  TransferLinks links({1e9, 1e9, kInfinite}, 1, 1);
  const TransferLinks::Id a = links.open(0, 0), b = links.open(0, 0);
  for (const TransferLinks::Id id : {a, b}) {
    links.add(id, {.bytes = 2e6}, 0);
    links.finish(id, 0);
  }
  EXPECT_FALSE(links.take(kMs));
  links.abort(b, 1e-3);
  EXPECT_EQ(links.next_event(), 2'500'000);
  EXPECT_EQ(links.take(2'500'000), a);
  EXPECT_DOUBLE_EQ(links.bytes_sent(), 2.5e6);
}

// Whatever the transfers: all bytes are sent, none is faster than alone, and no link carries more than its rate.
RC_GTEST_PROP(TransferLinksTest, ConservesBytesAndRates, ()) {
  const auto source = *rc::gen::inRange(1, 50), target = *rc::gen::inRange(1, 50);
  TransferLinks::Rates rates{source * 1e8, target * 1e8, kInfinite};
  TransferLinks links(rates, 2, 2);
  std::vector<Send> sends;
  double at = 0, bytes = 0;
  const auto count = *rc::gen::inRange(1, 30);
  for (int i = 0; i < count; ++i) {
    at += *rc::gen::inRange(0, 5) * 1e-3;
    const Send send{at,
                    *rc::gen::inRange<std::size_t>(0, 2),
                    *rc::gen::inRange<std::size_t>(0, 2),
                    {.fixed_s = *rc::gen::inRange(0, 3) * 1e-4, .bytes = *rc::gen::inRange(0, 5000) * 1e3}};
    bytes += send.part.bytes;
    sends.push_back(send);
  }
  const auto ends = run(links, sends);
  RC_ASSERT(ends.size() == sends.size());
  RC_ASSERT(std::abs(links.bytes_sent() - bytes) <= 1e-6 * bytes);
  Nanos last = 0;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const double alone = sends[i].part.fixed_s + sends[i].part.bytes / rates.alone();
    RC_ASSERT(1e-9 * static_cast<double>(ends.at(i)) >= sends[i].at_s + alone - 2e-9);
    last = std::max(last, ends.at(i));
  }
  for (const std::size_t replica : {0U, 1U}) {
    double from = 0;
    for (const Send& send : sends) from += send.source == replica ? send.part.bytes : 0;
    RC_ASSERT(1e-9 * static_cast<double>(last) >= from / rates.source - 2e-9);
  }
}

// Dynamo's rule with its defaults, 2048 tokens and 0.7: 104 of 1000 are few and a small part; 200 of 200 are the whole
// prompt; 2048 are not fewer than 2048.
TEST(LocalPrefillTest, FollowsDynamosStrictBounds) {
  LocalPrefill rule{.policy = LocalPrefill::Policy::isl};
  EXPECT_TRUE(is_local(rule, {.prompt = 1000, .cached = 896}));
  EXPECT_FALSE(is_local(rule, {.prompt = 200, .cached = 0}));
  rule.ratio = 0.99;
  EXPECT_FALSE(is_local(rule, {.prompt = 2048, .cached = 0}));
  rule.ratio = 1.01;
  EXPECT_TRUE(is_local(rule, {.prompt = 2047, .cached = 0}));
}

// Four steps of 2048 tokens: more than 8192 waiting tokens are too many.
TEST(LocalPrefillTest, LooksAtTheLoadOfThePrefillReplica) {
  LocalPrefill rule{.policy = LocalPrefill::Policy::load};
  EXPECT_FALSE(is_local(rule, {.prompt = 9000, .waiting = 8192, .step_tokens = 2048}));
  EXPECT_TRUE(is_local(rule, {.prompt = 9000, .waiting = 8193, .step_tokens = 2048}));
  rule.policy = LocalPrefill::Policy::isl_or_load;
  EXPECT_TRUE(is_local(rule, {.prompt = 1000, .cached = 896, .waiting = 0, .step_tokens = 2048}));
  EXPECT_TRUE(is_local(rule, {.prompt = 9000, .waiting = 8193, .step_tokens = 2048}));
}

// llm-d: remote if more than the threshold is not cached.
TEST(LocalPrefillTest, ComparesWhatIsNotCachedWithAThreshold) {
  const LocalPrefill rule{.policy = LocalPrefill::Policy::uncached, .tokens = 256};
  EXPECT_TRUE(is_local(rule, {.prompt = 1000, .cached = 744}));
  EXPECT_FALSE(is_local(rule, {.prompt = 1000, .cached = 743}));
}

}  // namespace
}  // namespace plimsoll::load

// SPDX-License-Identifier: Apache-2.0
#include "sched/router.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "sched/router_prefix.h"

namespace plimsoll::sched {
namespace {

std::vector<ReplicaLoad> outstanding(std::initializer_list<std::int64_t> counts) {
  std::vector<ReplicaLoad> loads;
  for (const std::int64_t count : counts) loads.push_back({.outstanding = count});
  return loads;
}

std::map<std::size_t, int> tally(Router& router, const std::vector<ReplicaLoad>& loads, int requests) {
  std::map<std::size_t, int> chosen;
  for (int i = 0; i < requests; ++i) ++chosen[router.route({}, loads)];
  return chosen;
}

TEST(Router, NamesGoBothWays) {
  ASSERT_EQ(router_names().size(), 8u);
  for (const std::string_view text : router_names()) EXPECT_EQ(name(*router_from_name(text)), text);
  EXPECT_EQ(name(RouterKind::least_tokens), "least_tokens");
  EXPECT_FALSE(router_from_name("Round_Robin"));
}

// Scenario S14: three replicas with 2, 0 and 1 requests outstanding, running ones included.
TEST(Router, S14RoundRobinStartsAtZeroWhateverTheLoad) {
  const auto router = make_router(RouterKind::round_robin, 1);
  const auto loads = outstanding({2, 0, 1});
  for (const std::size_t expected : {0u, 1u, 2u, 0u}) EXPECT_EQ(router->route({}, loads), expected);
}

TEST(Router, S14LeastOutstandingTakesTheIdleReplica) {
  EXPECT_EQ(make_router(RouterKind::least_outstanding, 1)->route({}, outstanding({2, 0, 1})), 1u);
}

// A router that is told every change chooses as one that is told none, and so looks at all replicas.
RC_GTEST_PROP(Router, ToldOfChangesChoosesAsOneThatLooksAtAll, ()) {
  for (std::size_t k = 0; k < router_names().size(); ++k) {
    const auto told = make_router(static_cast<RouterKind>(k), 5), looking = make_router(static_cast<RouterKind>(k), 5);
    std::vector<ReplicaLoad> loads(*rc::gen::inRange<std::size_t>(1, 20));
    for (int change = 0; change < 60; ++change) {
      const auto i = *rc::gen::inRange<std::size_t>(0, loads.size());
      loads[i].outstanding = *rc::gen::inRange<std::int64_t>(0, 5);
      loads[i].healthy = *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
      told->changed(i, loads);
      if (std::none_of(loads.begin(), loads.end(), [](const ReplicaLoad& load) { return load.healthy; })) continue;
      RC_ASSERT(told->route({}, loads) == looking->route({}, loads));
    }
  }
}

// Of the pairs {0,1} {0,2} {1,2}, equally likely, the less loaded are 1, 2 and 1: replica 0 never wins.
TEST(Router, S14PowerOfTwoTakesTheBetterOfTwoDistinctSamples) {
  const auto router = make_router(RouterKind::power_of_two, 7);
  auto chosen = tally(*router, outstanding({2, 0, 1}), 30000);
  EXPECT_EQ(chosen[0], 0);
  EXPECT_NEAR(chosen[1], 20000, 400);  // five standard deviations of 82
  EXPECT_NEAR(chosen[2], 10000, 400);
}

TEST(Router, PowerOfTwoIsUniformAmongEqualLoads) {
  const auto router = make_router(RouterKind::power_of_two, 7);
  auto chosen = tally(*router, outstanding({4, 4, 4}), 30000);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(chosen[i], 10000, 400);
}

TEST(Router, PowerOfTwoWithOneHealthyReplicaTakesIt) {
  auto loads = outstanding({0, 9, 0});
  loads[0].healthy = loads[2].healthy = false;
  EXPECT_EQ(make_router(RouterKind::power_of_two, 7)->route({}, loads), 1u);
}

TEST(Router, RoundRobinSkipsUnhealthyReplicasAndKeepsItsTurn) {
  const auto router = make_router(RouterKind::round_robin, 1);
  auto loads = outstanding({0, 0, 0});
  EXPECT_EQ(router->route({}, loads), 0u);  // k = 0 of {0, 1, 2}
  loads[1].healthy = false;
  EXPECT_EQ(router->route({}, loads), 2u);  // k = 1 of {0, 2}
  EXPECT_EQ(router->route({}, loads), 0u);  // k = 2
  loads[1].healthy = true;
  EXPECT_EQ(router->route({}, loads), 0u);  // k = 3 of {0, 1, 2}
}

TEST(Router, RandomIsUniformOverHealthyReplicas) {
  auto loads = outstanding({0, 5, 0, 0});
  loads[2].healthy = false;
  auto chosen = tally(*make_router(RouterKind::random, 3), loads, 30000);
  EXPECT_EQ(chosen[2], 0);
  for (const std::size_t i : {0u, 1u, 3u}) EXPECT_NEAR(chosen[i], 10000, 400);
}

TEST(Router, SameSeedDrawsTheSameReplicas) {
  const auto loads = outstanding({0, 0, 0, 0, 0});
  for (const RouterKind kind : {RouterKind::random, RouterKind::power_of_two}) {
    const auto one = make_router(kind, 11), two = make_router(kind, 11), other = make_router(kind, 12);
    int differ = 0;
    for (int i = 0; i < 100; ++i) {
      const std::size_t choice = one->route({}, loads);
      EXPECT_EQ(choice, two->route({}, loads));
      differ += choice != other->route({}, loads);
    }
    EXPECT_GT(differ, 0);
  }
}

TEST(Router, LeastOutstandingTiesGoToTheLowestHealthyIndex) {
  auto loads = outstanding({1, 1, 1});
  const auto router = make_router(RouterKind::least_outstanding, 1);
  EXPECT_EQ(router->route({}, loads), 0u);
  loads[0].healthy = false;
  EXPECT_EQ(router->route({}, loads), 1u);
}

TEST(Router, SessionsStickAndSpreadOverReplicas) {
  const auto router = make_router(RouterKind::session, 1);
  const auto loads = outstanding({90, 0, 0, 0});
  std::map<std::size_t, int> chosen;
  for (std::uint64_t session = 1; session <= 4000; ++session) {
    const std::size_t replica = router->route({.session = session}, loads);
    EXPECT_EQ(router->route({.session = session}, loads), replica);
    ++chosen[replica];
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(chosen[i], 1000, 140);  // five standard deviations of 27
}

TEST(Router, ALostReplicaMovesOnlyItsOwnSessions) {
  const auto router = make_router(RouterKind::session, 1);
  const auto all = outstanding({0, 0, 0, 0});
  auto fewer = all;
  fewer[2].healthy = false;
  for (std::uint64_t session = 1; session <= 1000; ++session) {
    const std::size_t before = router->route({.session = session}, all);
    const std::size_t after = router->route({.session = session}, fewer);
    if (before != 2)
      EXPECT_EQ(before, after);
    else
      EXPECT_NE(after, 2u);
  }
}

TEST(Router, SessionsSpillOverOnlyAboveTheCap) {
  const auto router = make_router(RouterKind::session, 1, {.session_cap = 3});
  auto loads = outstanding({0, 0});
  const std::size_t home = router->route({.session = 5}, loads);
  loads[home].outstanding = 3;
  EXPECT_EQ(router->route({.session = 5}, loads), home);
  loads[home].outstanding = 4;
  EXPECT_EQ(router->route({.session = 5}, loads), 1 - home);
  loads[1 - home].outstanding = 5;  // all above: the least loaded
  EXPECT_EQ(router->route({.session = 5}, loads), home);
}

TEST(Router, RequestsWithoutASessionGoWhereLeastIsOutstanding) {
  EXPECT_EQ(make_router(RouterKind::session, 1)->route({}, outstanding({2, 1, 3})), 1u);
}

TEST(Router, PrefixFollowsTheReplicaThatSawThePrompt) {
  const auto router = make_router(RouterKind::prefix, 1);
  const auto loads = outstanding({0, 0, 0});
  const std::array<std::uint64_t, 4> first{1, 2, 3, 4}, second{9, 8, 7, 6}, turn{9, 8, 7, 5};
  EXPECT_EQ(router->route({.prefix_hashes = first}, loads), 0u);
  EXPECT_EQ(router->route({.prefix_hashes = second}, loads), 1u);  // no match: the smallest tree
  EXPECT_EQ(router->route({.prefix_hashes = turn}, loads), 1u);    // 3 of 4 blocks match
  const std::array<std::uint64_t, 4> half{1, 2, 30, 40};
  EXPECT_EQ(router->route({.prefix_hashes = half}, loads), 2u);  // 2 of 4 is not above the threshold
}

TEST(Router, PrefixBalancesWhenLoadsAreFarApart) {
  const auto router = make_router(RouterKind::prefix, 1);
  const std::array<std::uint64_t, 2> prompt{1, 2};
  EXPECT_EQ(router->route({.prefix_hashes = prompt}, outstanding({0, 0})), 0u);
  EXPECT_EQ(router->route({.prefix_hashes = prompt}, outstanding({32, 0})), 0u);  // 32 apart: still balanced
  EXPECT_EQ(router->route({.prefix_hashes = prompt}, outstanding({33, 0})), 1u);
  // The tree of replica 1 learned the prompt too: equal matches go to the less loaded.
  EXPECT_EQ(router->route({.prefix_hashes = prompt}, outstanding({2, 1})), 1u);
}

TEST(Router, PrefixWithoutHashesTakesTheLeastLoaded) {
  EXPECT_EQ(make_router(RouterKind::prefix, 1)->route({}, outstanding({2, 1, 3})), 1u);
}

TEST(PrefixTree, ForgetsTheLeastRecentlyUsedEndsFirst) {
  PrefixTree tree(4);
  const std::array<std::uint64_t, 3> old{1, 2, 3}, fresh{7, 8, 9};
  tree.insert(old);
  tree.insert(std::array<std::uint64_t, 1>{7});
  EXPECT_EQ(tree.size(), 4u);
  tree.insert(fresh);  // needs two more: 3, then 2 go
  EXPECT_EQ(tree.size(), 4u);
  EXPECT_EQ(tree.match(old), 1u);
  EXPECT_EQ(tree.match(fresh), 3u);
}

TEST(PrefixTree, SameBlockAfterAnotherPrefixIsAnotherNode) {
  PrefixTree tree(100);
  tree.insert(std::array<std::uint64_t, 2>{1, 2});
  EXPECT_EQ(tree.match(std::array<std::uint64_t, 2>{2, 2}), 0u);
  EXPECT_EQ(tree.match(std::array<std::uint64_t, 3>{1, 2, 2}), 2u);
}

TEST(Router, LeastKvSeesReportsOfLimitedAge) {
  const auto router = make_router(RouterKind::least_kv, 1);
  std::vector<ReplicaLoad> loads{{.kv_blocks_in_use = 10}, {.kv_blocks_in_use = 5}};
  EXPECT_EQ(router->route({.now = 0}, loads), 1u);
  loads[1].kv_blocks_in_use = 50;
  EXPECT_EQ(router->route({.now = 49'999'999}, loads), 1u);  // still the report of t = 0
  EXPECT_EQ(router->route({.now = 50'000'000}, loads), 0u);
}

TEST(Router, LeastKvSpreadsABurstByTheRoutersOwnCount) {
  const auto router = make_router(RouterKind::least_kv, 1);
  EXPECT_EQ(router->route({}, outstanding({0, 0})), 0u);
  EXPECT_EQ(router->route({}, outstanding({1, 0})), 1u);
}

TEST(Router, LeastTokensWeighsRequestsByTheirTokens) {
  const std::vector<ReplicaLoad> loads{{.outstanding = 1, .outstanding_tokens = 4000},
                                       {.outstanding = 3, .outstanding_tokens = 300}};
  EXPECT_EQ(make_router(RouterKind::least_tokens, 1)->route({}, loads), 1u);
}

}  // namespace
}  // namespace plimsoll::sched

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

TEST(Router, NamesComeInTheOrderOfTheirKinds) {
  ASSERT_EQ(router_names().size(), 13u);
  for (std::size_t k = 0; k < router_names().size(); ++k)
    EXPECT_EQ(name(static_cast<RouterKind>(k)), router_names()[k]);
  EXPECT_EQ(name(RouterKind::least_tokens), "least_tokens");
  EXPECT_EQ(name(RouterKind::vllm_dp), "vllm_dp");
}

// Scenario S14: three replicas with 2, 0 and 1 outstanding requests, including running ones.
TEST(Router, S14RoundRobinStartsAtZeroWhateverTheLoad) {
  const auto router = make_router(RouterKind::round_robin, 1);
  const auto loads = outstanding({2, 0, 1});
  for (const std::size_t expected : {0u, 1u, 2u, 0u}) EXPECT_EQ(router->route({}, loads), expected);
}

TEST(Router, S14LeastOutstandingTakesTheIdleReplica) {
  EXPECT_EQ(make_router(RouterKind::least_outstanding, 1)->route({}, outstanding({2, 0, 1})), 1u);
}

// A router that is notified of every change must choose like one that is not and therefore examines all replicas.
RC_GTEST_PROP(Router, ToldOfChangesChoosesAsOneThatLooksAtAll, ()) {
  for (std::size_t k = 0; k < router_names().size(); ++k) {
    const auto told = make_router(static_cast<RouterKind>(k), 5), looking = make_router(static_cast<RouterKind>(k), 5);
    std::vector<ReplicaLoad> loads(*rc::gen::inRange<std::size_t>(1, 20));
    for (int change = 0; change < 60; ++change) {
      const auto i = *rc::gen::inRange<std::size_t>(0, loads.size());
      loads[i].outstanding = *rc::gen::inRange<std::int64_t>(0, 5);
      loads[i].outstanding_tokens = *rc::gen::inRange<std::int64_t>(0, 3);
      loads[i].kv_blocks_in_use = *rc::gen::inRange<std::int64_t>(0, 3);
      loads[i].healthy = *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
      told->changed(i, loads);
      if (std::none_of(loads.begin(), loads.end(), [](const ReplicaLoad& load) { return load.healthy; })) continue;
      const RouteQuery query{.session = *rc::gen::inRange<std::uint64_t>(0, 3), .now = change * Nanos{20'000'000}};
      RC_ASSERT(told->route(query, loads) == looking->route(query, loads));
    }
  }
}

// The pairs {0,1}, {0,2} and {1,2} are equally likely, with 1, 2 and 1 as the less loaded: replica 0 is never chosen.
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
  EXPECT_EQ(router->route({}, loads), 0u);  // k = 0 among {0, 1, 2}
  loads[1].healthy = false;
  EXPECT_EQ(router->route({}, loads), 2u);  // k = 1 among {0, 2}
  EXPECT_EQ(router->route({}, loads), 0u);  // k = 2
  loads[1].healthy = true;
  EXPECT_EQ(router->route({}, loads), 0u);  // k = 3 among {0, 1, 2}
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
  loads[1 - home].outstanding = 5;  // all are above the limit, so the least loaded is chosen
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
  EXPECT_EQ(router->route({.prefix_hashes = second}, loads), 1u);  // no match, so the smallest tree is chosen
  EXPECT_EQ(router->route({.prefix_hashes = turn}, loads), 1u);    // 3 of 4 blocks match
  const std::array<std::uint64_t, 4> half{1, 2, 30, 40};
  EXPECT_EQ(router->route({.prefix_hashes = half}, loads), 2u);  // 2 of 4 do not exceed the threshold
}

TEST(Router, PrefixBalancesWhenLoadsAreFarApart) {
  const auto router = make_router(RouterKind::prefix, 1);
  const std::array<std::uint64_t, 2> prompt{1, 2};
  EXPECT_EQ(router->route({.prefix_hashes = prompt}, outstanding({0, 0})), 0u);
  EXPECT_EQ(router->route({.prefix_hashes = prompt}, outstanding({32, 0})), 0u);  // a difference of 32 is balanced
  EXPECT_EQ(router->route({.prefix_hashes = prompt}, outstanding({33, 0})), 1u);
  // The tree of replica 1 has learned the prompt too: among equal matches the less loaded replica is chosen.
  EXPECT_EQ(router->route({.prefix_hashes = prompt}, outstanding({2, 1})), 1u);
}

TEST(Router, PrefixWithoutHashesTakesTheLeastLoaded) {
  EXPECT_EQ(make_router(RouterKind::prefix, 1)->route({}, outstanding({2, 1, 3})), 1u);
}

// A workload states the hashes of the shared beginning alone: 32 of 64 tokens are not more than half of the prompt, and
// 48 are. The rest of each prompt fills the trees: 4 blocks each, and the fourth prompt finds one of three.
TEST(Router, PrefixComparesWithTheWholePrompt) {
  const auto router = make_router(RouterKind::prefix, 1);
  const auto loads = outstanding({0, 0, 0});
  const std::array<std::uint64_t, 3> shared{1, 2, 3};
  const auto prompt = [&](std::size_t blocks) {
    return RouteQuery{.prefix_hashes = std::span(shared).first(blocks), .prompt = 70};
  };
  EXPECT_EQ(router->route(prompt(2), loads), 0u);
  EXPECT_EQ(router->route(prompt(2), loads), 1u);
  EXPECT_EQ(router->route(prompt(0), loads), 2u);
  EXPECT_EQ(router->route(prompt(3), loads), 0u);  // a match of 2 of 4: the smallest tree, the first of equal ones
  EXPECT_EQ(router->route(prompt(3), loads), 0u);  // a match of 3 of 4
}

// The score of a match is its part of the whole prompt: 2 x 2 / 8 for the first replica, against a queue score of 1 for
// the others; or 2 x 2 / 2 for a prompt of 32 tokens.
TEST(Router, ScoredComparesWithTheWholePrompt) {
  for (const std::int64_t prompt : {32, 128}) {
    const auto router = make_router(RouterKind::scored, 1);
    std::vector<ReplicaLoad> loads(3);
    const std::array<std::uint64_t, 2> shared{1, 2};
    const RouteQuery query{.prefix_hashes = shared, .prompt = prompt};
    const std::size_t first = router->route(query, loads);
    for (std::size_t i = 0; i < 3; ++i) loads[i].waiting = i == first ? 9 : 0;
    EXPECT_EQ(router->route(query, loads) == first, prompt == 32);
  }
}

// Returns the longest prefix of a prompt that the tree of a replica contains.
std::size_t known(PrefixForest& forest, std::size_t replica, std::span<const std::uint64_t> blocks) {
  std::size_t n = forest.find(blocks);
  while (n > 0 && !forest.knows(replica, n)) --n;
  return n;
}

TEST(PrefixForest, ForgetsTheLeastRecentlyUsedEndsFirst) {
  PrefixForest forest(4);
  forest.resize(1);
  const std::array<std::uint64_t, 3> old{1, 2, 3}, fresh{7, 8, 9};
  forest.insert(0, old);
  forest.insert(0, std::array<std::uint64_t, 1>{7});
  EXPECT_EQ(forest.size(0), 4u);
  forest.insert(0, fresh);  // needs two more: 3 is evicted, then 2
  EXPECT_EQ(forest.size(0), 4u);
  EXPECT_EQ(known(forest, 0, old), 1u);
  EXPECT_EQ(known(forest, 0, fresh), 3u);
}

TEST(PrefixForest, SameBlockAfterAnotherPrefixIsAnotherNode) {
  PrefixForest forest(100);
  forest.resize(1);
  forest.insert(0, std::array<std::uint64_t, 2>{1, 2});
  EXPECT_EQ(known(forest, 0, std::array<std::uint64_t, 2>{2, 2}), 0u);
  EXPECT_EQ(known(forest, 0, std::array<std::uint64_t, 3>{1, 2, 2}), 2u);
}

/// The rule of RouterKind::prefix, written with a list of prefixes for each replica; every replica is examined.
class PlainPrefixRule {
 public:
  PlainPrefixRule(std::size_t replicas, const RouterOptions& options) : options_(options), recent_(replicas) {}

  std::size_t route(const std::vector<std::uint64_t>& prompt, const std::vector<ReplicaLoad>& loads) {
    const std::size_t chosen = choose(prompt, loads);
    std::vector<Prompt>& recent = recent_[chosen];
    for (std::size_t n = std::min(prompt.size(), options_.tree_blocks); n > 0; --n) {
      const Prompt beginning(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(n));
      std::erase(recent, beginning);
      recent.insert(recent.begin(), beginning);
    }
    if (recent.size() > options_.tree_blocks) recent.resize(options_.tree_blocks);
    return chosen;
  }

 private:
  using Prompt = std::vector<std::uint64_t>;

  template <class Key>
  static std::size_t least(const std::vector<ReplicaLoad>& loads, Key key) {
    std::size_t best = loads.size();
    for (std::size_t i = 0; i < loads.size(); ++i)
      if (loads[i].healthy && (best == loads.size() || key(i) < key(best))) best = i;
    return best;
  }
  [[nodiscard]] std::size_t match(std::size_t replica, const Prompt& prompt) const {
    std::size_t n = 0;
    const auto known = [&](std::size_t blocks) {
      const Prompt beginning(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(blocks));
      return std::find(recent_[replica].begin(), recent_[replica].end(), beginning) != recent_[replica].end();
    };
    while (n < prompt.size() && known(n + 1)) ++n;
    return n;
  }
  [[nodiscard]] std::size_t choose(const Prompt& prompt, const std::vector<ReplicaLoad>& loads) const {
    const auto load = [&](std::size_t i) { return loads[i].outstanding; };
    const std::size_t low = least(loads, load), high = least(loads, [&](std::size_t i) { return -load(i); });
    if (prompt.empty() || load(high) - load(low) > options_.imbalance_requests) return low;
    const std::size_t best =
        least(loads, [&](std::size_t i) { return std::pair(prompt.size() - match(i, prompt), load(i)); });
    if (static_cast<double>(match(best, prompt)) > 0.5 * static_cast<double>(prompt.size())) return best;
    return least(loads, [&](std::size_t i) { return std::pair(recent_[i].size(), load(i)); });
  }

  RouterOptions options_;
  std::vector<std::vector<Prompt>> recent_;  // by replica, the most recently used first
};

// Prompts branch off each other, trees are so small that they evict, and replicas come and go.
RC_GTEST_PROP(Router, PrefixChoosesAsOneThatAsksEveryReplica, ()) {
  RouterOptions options;
  options.imbalance_requests = 3;
  options.tree_blocks = *rc::gen::inRange<std::size_t>(1, 9);
  std::vector<ReplicaLoad> loads(*rc::gen::inRange<std::size_t>(1, 6));
  const auto told = make_router(RouterKind::prefix, 1, options), looking = make_router(RouterKind::prefix, 1, options);
  PlainPrefixRule plain(loads.size(), options);
  std::uint64_t unique = 0;
  for (int change = 0; change < 80; ++change) {
    const auto i = *rc::gen::inRange<std::size_t>(0, loads.size());
    loads[i].outstanding = *rc::gen::inRange<std::int64_t>(0, 5);
    loads[i].healthy = *rc::gen::weightedElement<bool>({{6, true}, {1, false}});
    told->changed(i, loads);
    if (std::none_of(loads.begin(), loads.end(), [](const ReplicaLoad& load) { return load.healthy; })) continue;
    const auto prompt = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(1, 3));
    const auto own = *rc::gen::inRange<std::int64_t>(0, 4);
    const RouteQuery query{.prefix_hashes = prompt, .prompt = 16 * (static_cast<std::int64_t>(prompt.size()) + own)};
    std::vector<std::uint64_t> whole = prompt;
    for (std::int64_t block = 0; block < own; ++block) whole.push_back(1000 + unique++);
    const std::size_t expected = plain.route(whole, loads);
    RC_ASSERT(told->route(query, loads) == expected);
    RC_ASSERT(looking->route(query, loads) == expected);
  }
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

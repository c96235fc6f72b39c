// SPDX-License-Identifier: Apache-2.0
// The rules of products, by their published formulas (docs/routers.md).
#include "sched/router.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "model/error.h"

namespace plimsoll::sched {
namespace {

std::unique_ptr<Router> make(RouterKind kind, const RouterOptions& options = {}, std::uint64_t seed = 1) {
  return make_router(kind, seed, options);
}

std::vector<std::size_t> picks(Router& router, const std::vector<ReplicaLoad>& loads, int count,
                               const RouteQuery& query = {}) {
  std::vector<std::size_t> chosen;
  for (int i = 0; i < count; ++i) chosen.push_back(router.route(query, loads));
  return chosen;
}

// From vLLM 0.12's source: counts of (waiting, running), four requests before the next report. 3 and 0, then 3 and 4,
// 7 and 4, 7 and 8. From equal counts the first engine begins.
TEST(VllmDpRouter, CountsItsOwnPicksAsWaiting) {
  const auto router = make(RouterKind::vllm_dp);
  EXPECT_EQ(picks(*router, {{.waiting = 0, .running = 3}, {}}, 4), (std::vector<std::size_t>{1, 0, 1, 0}));
  router->reported(std::vector<ReplicaLoad>(2));
  EXPECT_EQ(picks(*router, std::vector<ReplicaLoad>(2), 4), (std::vector<std::size_t>{0, 1, 0, 1}));
}

// With three front ends a pick counts three times: 12 against at most 11 running.
TEST(VllmDpRouter, APickCountsForEveryFrontEnd) {
  const auto router = make(RouterKind::vllm_dp, {.clients = 3});
  EXPECT_EQ(picks(*router, {{}, {.running = 11}}, 2), (std::vector<std::size_t>{0, 1}));
}

// cost = overlap x (prompt tokens without a first token + new - hit) / block + blocks: 16 + 40 without a hit, and
// (256 + 1000 - 960) / 16 + 60 = 18.5 + 60 with one.
TEST(DynamoRouter, WeighsPromptsToComputeAgainstBlocksInUse) {
  const std::vector<ReplicaLoad> loads{{.prefill_tokens = 256, .prompt_blocks = 60}, {.prompt_blocks = 10}};
  const std::array<Tok, 2> warm{960, 0};
  const RouteQuery query{.prompt = 1000, .block_tokens = 16, .cached = warm};
  // 78.5 against 62.5 + 10 = 72.5.
  EXPECT_EQ(make(RouterKind::dynamo)->route(query, loads), 1U);
  // Twice the weight of prefill: 37 + 60 = 97 against 125 + 10 = 135.
  EXPECT_EQ(make(RouterKind::dynamo, {.overlap = 2})->route(query, loads), 0U);
  // No weight: the fewest blocks.
  EXPECT_EQ(make(RouterKind::dynamo, {.overlap = 0})->route(query, loads), 1U);
}

// Softmax of costs scaled to [0, 1]: at temperature 1 the dearer of two is chosen with probability e^-1 / (1 + e^-1) =
// 0.269, however far apart the costs are.
TEST(DynamoRouter, DrawsBySoftmax) {
  for (const std::int64_t apart : {1, 1000}) {
    const auto router = make(RouterKind::dynamo, {.temperature = 1});
    const std::vector<ReplicaLoad> loads{{.prompt_blocks = apart}, {}};
    int dearer = 0;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) dearer += router->route({.prompt = 16}, loads) == 0 ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(dearer) / kDraws, std::exp(-1) / (1 + std::exp(-1)), 0.03) << apart;
  }
}

// prefix 2 x 4/4 + queue 1 x 0 + KV 1 x (1 - 0.9) = 2.1 on the replica that was sent the prompt; 0 + 1 + 1 = 2 on the
// idle one. At KV 1.0 the first loses its lead.
TEST(ScoredRouter, AddsWeightedScores) {
  const std::vector<std::uint64_t> prompt{1, 2, 3, 4};
  const RouteQuery query{.prefix_hashes = prompt};
  for (const auto& [used, chosen] : {std::pair(0.9, 0U), {1.0, 1U}}) {
    const auto router = make(RouterKind::scored);
    // The first request must go to replica 0: the other one has a long queue.
    EXPECT_EQ(router->route(query, std::vector<ReplicaLoad>{{}, {.waiting = 5}}), 0U);
    const std::vector<ReplicaLoad> busy{{.waiting = 7, .kv_used = used}, {.kv_used = used == 1.0 ? 0.0 : 0.0}};
    if (used < 1) {
      EXPECT_EQ(router->route(query, busy), chosen);
    } else {
      // 2 x 1 + 0 + 0 = 2 = 0 + 1 + 1: equal scores draw, so the weights decide with a hair more for the queue.
      const auto heavier = make(RouterKind::scored, {.queue = 1.01});
      EXPECT_EQ(heavier->route(query, std::vector<ReplicaLoad>{{}, {.waiting = 5}}), 0U);
      EXPECT_EQ(heavier->route(query, busy), chosen);
    }
  }
}

// The picker shuffles equal scores: an idle fleet without prefixes is used evenly, not from its first replica on.
TEST(ScoredRouter, DrawsAmongEqualScores) {
  const auto router = make(RouterKind::scored);
  std::set<std::size_t> seen;
  for (const std::size_t i : picks(*router, std::vector<ReplicaLoad>(4), 64)) seen.insert(i);
  EXPECT_EQ(seen.size(), 4U);
}

// Only the first blocks of a prompt are compared, and each replica's memory is limited.
TEST(ScoredRouter, ComparesAndRemembersNoMoreThanStated) {
  const std::vector<std::uint64_t> a{1, 2, 3, 4}, b{1, 2, 9, 9};
  const std::vector<ReplicaLoad> first{{}, {.waiting = 1}}, second{{.waiting = 1}, {}};
  RouterOptions options{.prefix = 10, .match_blocks = 2};
  auto router = make(RouterKind::scored, options);
  EXPECT_EQ(router->route({.prefix_hashes = a}, first), 0U);
  EXPECT_EQ(router->route({.prefix_hashes = b}, second), 0U) << "their first two blocks are equal";
  options.known_blocks = 2;
  router = make(RouterKind::scored, options);
  const std::vector<std::uint64_t> other{7, 8};
  EXPECT_EQ(router->route({.prefix_hashes = a}, first), 0U);
  EXPECT_EQ(router->route({.prefix_hashes = other}, first), 0U);
  EXPECT_EQ(router->route({.prefix_hashes = a}, second), 1U) << "forgotten";
}

// Without any hit, the replica that got its last prompt longest ago scores 1.
TEST(ScoredRouter, SpreadsNewPromptsOverTheLeastRecentlyUsed) {
  const auto router = make(RouterKind::scored, {.queue = 0, .kv = 0, .no_hit_lru = 1});
  std::vector<std::size_t> chosen;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const std::vector<std::uint64_t> prompt{100 + i};
    chosen.push_back(router->route({.prefix_hashes = prompt}, std::vector<ReplicaLoad>(3)));
  }
  EXPECT_EQ(chosen, (std::vector<std::size_t>{0, 1, 2, 0, 1, 2}));
}

// A hit of 3000 of 5000 tokens is followed: at most 2000 are missing. One of 2999 is not, and without a session the
// least used replica of the last minute takes the request.
TEST(KvAwareRouter, FollowsACacheThatHoldsNearlyAll) {
  const std::vector<ReplicaLoad> loads(3);
  const std::array<Tok, 3> enough{0, 100, 3000}, less{0, 100, 2999};
  EXPECT_EQ(make(RouterKind::kv_aware)->route({.prompt = 5000, .cached = enough}, loads), 2U);
  EXPECT_EQ(make(RouterKind::kv_aware)->route({.prompt = 5000, .cached = less}, loads), 0U);
  EXPECT_EQ(make(RouterKind::kv_aware, {.threshold = 2001})->route({.prompt = 5000, .cached = less}, loads), 2U);
}

TEST(KvAwareRouter, FallsBackToTheSessionThenToTheLeastUsed) {
  const auto router = make(RouterKind::kv_aware);
  const std::vector<ReplicaLoad> loads(3);
  const std::array<Tok, 3> none{};
  const auto of_session = [&](std::uint64_t session) {
    return router->route({.session = session, .prompt = 10, .cached = none}, loads);
  };
  const std::size_t home = of_session(42);
  EXPECT_EQ(of_session(42), home);
  EXPECT_EQ(of_session(42), home);
  constexpr Nanos kMinute = 60'000'000'000;
  const auto later = make(RouterKind::kv_aware);
  EXPECT_EQ(later->route({.now = 0, .prompt = 10, .cached = none}, loads), 0U);
  EXPECT_EQ(later->route({.now = 1, .prompt = 10, .cached = none}, loads), 1U);
  EXPECT_EQ(later->route({.now = 2, .prompt = 10, .cached = none}, loads), 2U);
  EXPECT_EQ(later->route({.now = kMinute, .prompt = 10, .cached = none}, loads), 0U) << "its request is a minute old";
}

TEST(PrefixTrieRouter, StaysWithTheLongestPrefix) {
  const auto router = make(RouterKind::prefix_trie);
  const std::vector<std::uint64_t> a{1, 2, 3}, longer{1, 2, 3, 4};
  const std::vector<ReplicaLoad> loads(4);
  const std::size_t home = router->route({.prefix_hashes = a}, loads);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(router->route({.prefix_hashes = longer}, loads), home);
}

// Whatever the rule, the loads and the options: a healthy replica is chosen, and the same calls give the same choices.
RC_GTEST_PROP(ProductRouters, ChooseHealthyReplicasAndRepeat, ()) {
  const auto kind = static_cast<RouterKind>(*rc::gen::inRange<std::size_t>(0, router_names().size()));
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 100);
  RouterOptions options;
  options.temperature = *rc::gen::inRange(0, 3);
  options.active = *rc::gen::inRange(0, 2);
  options.no_hit_lru = *rc::gen::inRange(0, 2);
  options.threshold = *rc::gen::inRange(0, 100);
  const auto one = make(kind, options, seed), two = make(kind, options, seed);
  std::vector<ReplicaLoad> loads(count);
  for (int i = 0; i < 20; ++i) {
    for (ReplicaLoad& load : loads) {
      load.healthy = *rc::gen::inRange(0, 3) > 0;
      load.outstanding = *rc::gen::inRange(0, 4);
      load.waiting = *rc::gen::inRange(0, 4);
      load.running = *rc::gen::inRange(0, 4);
      load.prompt_blocks = *rc::gen::inRange(0, 4);
      load.prefill_tokens = *rc::gen::inRange(0, 100);
      load.kv_used = *rc::gen::inRange(0, 2);
    }
    loads[*rc::gen::inRange<std::size_t>(0, count)].healthy = true;
    const auto prompt = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 3));
    const auto cached = *rc::gen::container<std::vector<Tok>>(count, rc::gen::inRange<Tok>(0, 50));
    const RouteQuery query{.session = *rc::gen::inRange<std::uint64_t>(0, 3),
                           .tokens = 60,
                           .prefix_hashes = prompt,
                           .now = Nanos{1'000'000'000} * i,
                           .prompt = 50,
                           .cached = cached};
    const std::size_t chosen = one->route(query, loads);
    RC_ASSERT(chosen < count);
    RC_ASSERT(loads[chosen].healthy);
    RC_ASSERT(two->route(query, loads) == chosen);
    if (i % 3 == 0) {
      one->reported(loads);
      two->reported(loads);
    }
  }
}

TEST(RouterTable, EveryRowHasANameAndADescription) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < router_names().size(); ++i) {
    const RouterInfo& info = router_info(static_cast<RouterKind>(i));
    EXPECT_EQ(info.name, router_names()[i]);
    EXPECT_FALSE(info.description.empty()) << info.name;
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), router_names().size());
}

}  // namespace
}  // namespace plimsoll::sched

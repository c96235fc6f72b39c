// SPDX-License-Identifier: Apache-2.0
// Sessions in a simulated deployment: when turns are sent, what they find in the cache, and where routers send them.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "sim/simulate.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::sim {
namespace {

constexpr double kNanos = 1e-9;

load::Scenario sessions(std::int32_t users, std::int32_t turns) {
  load::Scenario s = testing::base_scenario();
  load::Sessions load{.talk = {}, .concurrency = users};
  load.talk.turns = load::FixedLength{turns};
  load.talk.added = load::FixedLength{60};
  load.talk.think = {.mean = 20};
  s.workload.load = load;
  s.workload.lengths = load::IndependentLengths{load::FixedLength{100}, load::FixedLength{20}};
  s.workload.requests = 0;
  s.policy.policy = sched::PolicyKind::vllm_v1;
  s.policy.model_max_len = 4096;
  s.kv = {.blocks = 4000, .block_tokens = 16, .prefix_caching = true};
  return s;
}

load::Conversation& talk(load::Scenario& s) { return *load::conversation_of(s.workload.load); }

RunResult run_sessions(const load::Scenario& s) {
  RunOptions options;
  options.keep_requests = options.keep_log = options.keep_steps = true;
  return simulate(s, options);
}

std::int64_t prefill_tokens(const RunResult& result) {
  return std::accumulate(result.steps.begin(), result.steps.end(), std::int64_t{0},
                         [](std::int64_t sum, const sched::StepRow& row) { return sum + row.prefill_tokens; });
}

// Each turn is sent 20 s after the answer to the one before, and two sessions of three turns follow each other.
TEST(Sessions, TurnsFollowAnswers) {
  load::Scenario s = sessions(1, 3);
  talk(s).count = 2;
  const RunResult result = run_sessions(s);
  ASSERT_EQ(result.requests.size(), 6U);
  for (std::size_t i = 1; i < 6; ++i) {
    const double gap = kNanos * static_cast<double>(result.requests[i].arrival - result.requests[i - 1].end);
    EXPECT_NEAR(gap, i == 3 ? 0 : 20, 1e-9) << i;
  }
  EXPECT_EQ(result.requests[2].input, 100 + 2 * 80);
}

// A turn of 100 + 20 tokens leaves 119 tokens of KV, 7 whole blocks of 16; the next prompt of 180 computes 180 - 112.
// Then 180 + 20 leave 199 tokens, 12 blocks: 260 - 192. Without the answer's blocks it would be 180 - 96 and 260 - 176.
TEST(Sessions, PromptsAreFoundWithTheirAnswers) {
  load::Scenario s = sessions(1, 3);
  talk(s).count = 1;
  EXPECT_EQ(prefill_tokens(run_sessions(s)), 100 + (180 - 112) + (260 - 192));
  s.kv.prefix_caching = false;
  EXPECT_EQ(prefill_tokens(run_sessions(s)), 100 + 180 + 260);
}

// Hits depend on where the blocks are. If two replicas take turns, the second turn finds nothing on the other replica,
// and the third finds the first turn's blocks on its own. A router that keeps sessions together finds all blocks.
TEST(Sessions, HitsFollowTheBlocks) {
  load::Scenario s = sessions(1, 3);
  talk(s).count = 1;
  s.replicas = 2;
  s.router = sched::RouterKind::round_robin;
  EXPECT_EQ(prefill_tokens(run_sessions(s)), 100 + 180 + (260 - 112));
  for (const auto router : {sched::RouterKind::session, sched::RouterKind::dynamo, sched::RouterKind::kv_aware,
                            sched::RouterKind::scored, sched::RouterKind::prefix_trie, sched::RouterKind::prefix}) {
    s.router = router;
    EXPECT_EQ(prefill_tokens(run_sessions(s)), 100 + (180 - 112) + (260 - 192)) << sched::name(router);
  }
}

// A pool that is too small for the sessions evicts blocks, so hits decrease; they never exceed what the pool holds.
TEST(Sessions, EvictionCostsHits) {
  load::Scenario s = sessions(8, 4);
  talk(s).count = 16;
  const std::int64_t ample = prefill_tokens(run_sessions(s));
  s.kv.blocks = 60;  // four of the longest prompts
  const std::int64_t tight = prefill_tokens(run_sessions(s));
  s.kv.prefix_caching = false;
  EXPECT_LT(ample, tight);
  EXPECT_LE(tight, prefill_tokens(run_sessions(s)));
}

// In a closed loop, at most as many sessions are open as there are users. In an open loop, sessions begin at their own
// times.
TEST(Sessions, PopulationsAreClosedOrOpen) {
  load::Scenario s = sessions(3, 2);
  talk(s).count = 9;
  talk(s).think = {};
  RunResult result = run_sessions(s);
  EXPECT_EQ(result.requests.size(), 18U);
  for (const sched::RequestRow& row : result.requests) {
    const auto open = std::count_if(result.requests.begin(), result.requests.end(), [&](const sched::RequestRow& r) {
      return r.arrival <= row.arrival && r.end > row.arrival;
    });
    EXPECT_LE(open, 3);
  }
  const load::Conversation same = talk(s);
  s.workload.load = load::SessionArrivals{same, 0.5, 0};
  result = run_sessions(s);
  ASSERT_EQ(result.requests.size(), 18U);
  EXPECT_EQ(result.requests[0].arrival, 2'000'000'000) << "one every two seconds";
}

// A refused turn ends its session: the rest would contain an answer that does not exist. Prompts grow by 80 tokens, so
// the sixth turn of 500 + 20 exceeds 512.
TEST(Sessions, ARefusedTurnEndsItsSession) {
  load::Scenario s = sessions(1, 10);
  talk(s).count = 2;
  s.policy.max_total = 512;
  const RunResult result = run_sessions(s);
  EXPECT_EQ(result.requests.size(), 12U);
  EXPECT_EQ(result.metrics.requests_rejected, 2);
  talk(s).longest = 512;
  EXPECT_EQ(run_sessions(s).metrics.requests_rejected, 0);
}

// `requests` counts turns over all sessions.
TEST(Sessions, RequestsEndTheWorkload) {
  load::Scenario s = sessions(4, 5);
  s.workload.requests = 33;
  EXPECT_EQ(run_sessions(s).requests.size(), 33U);
}

// Users settle after three sessions, here 24 requests each, not after the ten requests of other closed loops.
TEST(Sessions, ASteadyStateNeedsSomeSessions) {
  load::Scenario s = sessions(4, 8);
  s.workload.requests = 4 * 12;
  const sched::SteadyState few = run_sessions(s).metrics.steady;
  EXPECT_EQ(few.verdict, sched::Steadiness::too_short);
  EXPECT_GE(few.requests_needed, 4 * 24);
  s.workload.requests = 4 * 30;
  EXPECT_EQ(run_sessions(s).metrics.steady.verdict, sched::Steadiness::stable);
}

load::Scenario random_sessions(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % std::size(all)];
  };
  load::Scenario s = sessions(pick(1, 4, 20), pick(1, 3, 6));
  load::Conversation& t = talk(s);
  t.think = {.family = load::PauseFamily::exponential, .mean = pick(0.0, 0.3, 3.0)};
  t.added = load::LengthDistribution{load::LengthFamily::lognormal, 60, 1, 1, 300};
  if (pick(0, 1) == 1) t.turns = load::LengthDistribution{load::LengthFamily::geometric, 3, 1, 1, 8};
  if (pick(0, 1) == 1) {
    t.tool_share = 0.5;
    t.tool = {.mean = 0.05};
    t.result = load::FixedLength{200};
  }
  if (pick(0, 2) == 0) s.workload.prefix = {2, 64};
  if (pick(0, 2) == 0) s.workload.load = load::SessionArrivals{t, pick(0.5, 5.0), pick(0.0, 1.0, 2.0)};
  s.workload.requests = 100;
  s.workload.seed = seed;
  s.kv.blocks = pick(220, 600, 4000);
  s.kv.block_tokens = pick(16, 16, 32, 64);
  s.kv.prefix_caching = pick(0, 1, 1) == 1;
  s.replicas = pick(1, 2, 3);
  s.router = static_cast<sched::RouterKind>(random() % sched::router_names().size());
  if (pick(0, 1) == 1) s.router_options.report_every = Nanos{pick(0, 10, 1000)} * 1'000'000;
  if (pick(0, 2) == 0) {
    s.limits.timeout = Seconds(pick(0.5, 4.0));
    s.limits.cancel_on_timeout = pick(0, 1) == 1;
    s.limits.retries = pick(0, 1);
  }
  if (pick(0, 3) == 0) s.policy.async_scheduling = true;
  if (pick(0, 2) == 0) s.policy.step_token_budget = 32;  // prompts soon fill every replica, and some routers wait
  return s;
}

// With sessions, leaps equal steps for every router, and the invariants of sessions hold.
RC_GTEST_PROP(Sessions, LeapsEqualStepsAndInvariantsHold, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  load::Scenario s = random_sessions(seed);
  RC_LOG() << "seed " << seed << '\n';
  const RunResult leaping = run_sessions(s);
  s.stepwise = true;
  const RunResult stepping = run_sessions(s);
  RC_ASSERT(leaping.logs == stepping.logs);
  RC_ASSERT(leaping.requests.size() == stepping.requests.size());
  RC_ASSERT(leaping.requests.size() <= 100U);
  for (std::size_t i = 0; i < leaping.requests.size(); ++i) {
    const sched::RequestRow &a = leaping.requests[i], &b = stepping.requests[i];
    RC_ASSERT(a.replica == b.replica);
    RC_ASSERT(a.outcome == b.outcome);
    RC_ASSERT(std::abs(a.end - b.end) <= 2 + a.end / 1'000'000'000);
    RC_ASSERT(a.generated <= a.output);
    if (a.outcome == sched::Outcome::completed) RC_ASSERT(a.generated == a.output);
  }
  // Caching never computes more than every prompt once, and once more for each preemption.
  if (leaping.metrics.preemptions == 0) {
    std::int64_t prompts = 0;
    for (const sched::RequestRow& row : leaping.requests) prompts += row.input;
    if (s.limits.retries == 0) RC_ASSERT(prefill_tokens(leaping) <= prompts);
  }
}

}  // namespace
}  // namespace plimsoll::sim

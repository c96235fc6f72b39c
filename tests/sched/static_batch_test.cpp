// SPDX-License-Identifier: Apache-2.0
#include "sched/static_batch.h"

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

const std::string kBasic = "A:6+3 B:5+4 C:4+2@3";

TEST(NoBatching, RunsOneRequestAtATime) {
  EXPECT_EQ(steps_of(config(PolicyKind::none), ample(), kBasic),
            "P[A:6] | D[A] | D[A] | P[B:5] | D[B] | D[B] | D[B] | P[C:4] | D[C]");
}

TEST(NoBatching, IgnoresABatchSize) {
  EXPECT_EQ(steps_of(config(PolicyKind::none,
                            [](PolicyConfig& c) {
                              c.max_running = 8;
                              c.batch_size = 8;
                            }),
                     ample(), "A:2+1 B:2+1"),
            "P[A:2] | P[B:2]");
}

TEST(StaticBatch, PaysForPaddingAndDeadRowsUntilTheLastRowIsFinished) {
  EXPECT_EQ(steps_of(config(PolicyKind::static_batch, [](PolicyConfig& c) { c.batch_size = 2; }), ample(), kBasic),
            "P[A:6 B:5] pad(6) | D[A B] | D[A B] | D[B] dead[A] | P[C:4] | D[C]");
}

TEST(StaticBatch, LetsNobodyJoinARunningBatch) {
  EXPECT_EQ(steps_of(config(PolicyKind::static_batch, [](PolicyConfig& c) { c.batch_size = 2; }), ample(),
                     "A:4+3 B:4+2 C:4+2 D:4+1"),
            "P[A:4 B:4] | D[A B] | D[A] dead[B] | P[C:4 D:4] | D[C] dead[D]");
}

TEST(StaticBatch, NamesDeadRowsInBatchOrder) {
  EXPECT_EQ(steps_of(config(PolicyKind::static_batch, [](PolicyConfig& c) { c.batch_size = 3; }), ample(),
                     "A:4+3 B:4+1 C:4+4"),
            "P[A:4 B:4 C:4] | D[A C] dead[B] | D[A C] dead[B] | D[C] dead[A B]");
}

TEST(StaticBatch, ReturnsABatchWhoseRowsAllFinishInThePrefill) {
  EXPECT_EQ(steps_of(config(PolicyKind::static_batch, [](PolicyConfig& c) { c.batch_size = 2; }), ample(),
                     "A:4+1 B:3+1 C:2+1"),
            "P[A:4 B:3] pad(4) | P[C:2]");
}

TEST(StaticBatch, TakesMaxRunningForABatchSizeThatIsNotStated) {
  EXPECT_EQ(steps_of(config(PolicyKind::static_batch, [](PolicyConfig& c) { c.max_running = 2; }), ample(),
                     "A:4+1 B:4+1 C:4+1"),
            "P[A:4 B:4] | P[C:4]");
}

TEST(StaticBatch, TakesNoMoreRowsThanSlotsFit) {  // 6 blocks of 4 tokens hold two slots of 12 tokens
  PolicyConfig policy = config(PolicyKind::static_batch, [](PolicyConfig& c) { c.batch_size = 4; });
  policy.model_max_len = 12;
  const KvConfig kv{.blocks = 6, .block_tokens = 4, .prefix_caching = false};
  EXPECT_EQ(steps_of(policy, kv, "A:4+1 B:4+1 C:4+1"), "P[A:4 B:4] | P[C:4]");
  EXPECT_EQ(steps_of(policy, kv, "A:10+3 B:4+1"), "P[B:4] rejected(A 422)");  // 13 tokens exceed the slot
}

TEST(StaticBatch, HoldsASlotOfTheLongestSequenceForEveryRow) {
  PolicyConfig policy = config(PolicyKind::static_batch, [](PolicyConfig& c) { c.batch_size = 2; });
  policy.max_total = 12;
  Replica::Config setup;
  setup.policy = policy;
  setup.kv = {.blocks = 10, .block_tokens = 4, .prefix_caching = false};
  Replica replica(setup);
  for (std::uint64_t i = 0; i < 2; ++i) {
    NewRequest request;
    request.serial = i;
    (void)replica.arrive(request, 0);
  }
  ASSERT_TRUE(replica.decide(0));
  EXPECT_EQ(replica.kv().in_use(), 6);
}

// ---- dynamic: the scenario S10, a batch serves in 250 ms -----------------------------------------------------------
std::vector<TimedRequest> timer_scenario() {
  std::vector<TimedRequest> requests;
  const std::vector<std::pair<const char*, Nanos>> arrivals{{"a", 0},   {"b", 40},  {"c", 90},  {"d", 101},
                                                            {"e", 120}, {"f", 130}, {"g", 140}, {"h", 200}};
  for (const auto& [name, at] : arrivals) requests.push_back({.name = name, .at = at * kMs, .cancel_at = kNever});
  return requests;
}

std::vector<std::string> launches(const PolicyConfig& policy, const std::vector<TimedRequest>& requests) {
  const TimedRun run = run_timed(policy, ample(), requests, {250 * kMs, Mode::steps});
  EXPECT_EQ(run.log, run_timed(policy, ample(), requests, {250 * kMs, Mode::leaps}).log);
  return run.launches;
}

TEST(DynamicBatching, StartsItsDelayWhenTheWorkerTakesTheFirstJob) {
  EXPECT_EQ(launches(config(PolicyKind::dynamic, [](PolicyConfig& c) { c.batch_size = 4; }), timer_scenario()),
            (std::vector<std::string>{"a b c @100", "d e f g @350", "h @700"}));
}

TEST(DynamicBatching, OrCountsItFromTheOldestArrival) {
  EXPECT_EQ(launches(config(PolicyKind::dynamic,
                            [](PolicyConfig& c) {
                              c.batch_size = 4;
                              c.delay_origin = DelayOrigin::oldest_arrival;
                            }),
                     timer_scenario()),
            (std::vector<std::string>{"a b c @100", "d e f g @350", "h @600"}));
}

TEST(DynamicBatching, RunsSingleJobsByDefault) {
  EXPECT_EQ(
      launches(config(PolicyKind::dynamic), timer_scenario()),
      (std::vector<std::string>{"a @0", "b @250", "c @500", "d @750", "e @1000", "f @1250", "g @1500", "h @1750"}));
}

TEST(DynamicBatching, TakesNonPositiveDelaysForTheDefault) {
  EXPECT_EQ(launches(config(PolicyKind::dynamic,
                            [](PolicyConfig& c) {
                              c.batch_size = 4;
                              c.max_batch_delay = 0;
                            }),
                     timer_scenario())[0],
            "a b c @100");
}

TEST(DynamicBatching, TakesOneJobAtTheDeadlineItself) {
  EXPECT_EQ(launches(config(PolicyKind::dynamic, [](PolicyConfig& c) { c.batch_size = 4; }),
                     {{.name = "a"}, {.name = "b", .at = 100 * kMs}, {.name = "c", .at = 100 * kMs}}),
            (std::vector<std::string>{"a b @100", "c @450"}));
}

TEST(DynamicBatching, RestartsItsDelayWhenTheOnlyJobIsCancelled) {
  EXPECT_EQ(launches(config(PolicyKind::dynamic, [](PolicyConfig& c) { c.batch_size = 4; }),
                     {{.name = "a", .cancel_at = 50 * kMs}, {.name = "b", .at = 60 * kMs}}),
            (std::vector<std::string>{"b @160"}));
}

// While the worker serves a job, only two of the three places in the queue can be used.
TEST(DynamicBatching, LeavesTheLastPlaceOfTheQueueFreeWhileItsWorkerIsBusy) {
  const PolicyConfig policy = config(PolicyKind::dynamic, [](PolicyConfig& c) {
    c.batch_size = 2;
    c.queue_limit = 3;
  });
  std::vector<TimedRequest> requests;
  for (std::size_t i = 0; i < 6; ++i) requests.push_back({.name = name_of(i)});
  const TimedRun run = run_timed(policy, ample(), requests, {kMs, Mode::steps});
  EXPECT_EQ(run.log, "1: P[q0:1 q1:1] rejected(q4 503, q5 503)\n2: P[q2:1 q3:1]\n");
}

PolicyConfig draw_static_batch() {
  PolicyConfig policy;
  policy.policy = *rc::gen::element(PolicyKind::none, PolicyKind::static_batch, PolicyKind::dynamic);
  policy.batch_size = sometimes(rc::gen::inRange<std::int64_t>(1, 6));
  policy.max_batch_delay = *rc::gen::inRange<Nanos>(0, 20) * kMs;
  policy.delay_origin = *rc::gen::element(DelayOrigin::worker_free, DelayOrigin::oldest_arrival);
  policy.queue_limit = sometimes(rc::gen::inRange<std::int64_t>(1, 6));
  policy.model_max_len = *rc::gen::element<Tok>(0, 0, 30, 48);
  return policy;
}

RC_GTEST_PROP(StaticBatchProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_static_batch(), draw_kv()); }

RC_GTEST_PROP(StaticBatchProperty, ScriptsEndWithAllTokens, ()) {
  (void)check_script(draw_static_batch(), draw_kv(), draw_requests());
}

}  // namespace
}  // namespace plimsoll::sched::testing

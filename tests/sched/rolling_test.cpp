// SPDX-License-Identifier: Apache-2.0
#include "sched/rolling.h"

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

constexpr Nanos kSecond = 1000 * kMs;

TEST(Rolling, PrefillsWhatIsNewAndThenDecodesTheOthersInOneIteration) {  // S1
  EXPECT_EQ(steps_of(config(PolicyKind::rolling), ample(), "A:6+3 B:5+4 C:4+2@3"),
            "P[A:6 B:5] | D[A B] | P[C:4]; D[A B] | D[B C]");
}

TEST(Rolling, AdmitsByRequestCountOnly) {  // S2 and S3
  EXPECT_EQ(steps_of(config(PolicyKind::rolling), ample(), "A:10+2 B:10+2 C:3+2"), "P[A:10 B:10 C:3] | D[A B C]");
  EXPECT_EQ(steps_of(config(PolicyKind::rolling, [](PolicyConfig& c) { c.max_running = 2; }), ample(),
                     "A:4+3 B:4+2 C:4+2 D:4+1"),
            "P[A:4 B:4] | D[A B] | P[C:4]; D[A] | P[D:4]; D[C]");
}

TEST(Rolling, HasThirtyTwoPlacesByDefault) {
  std::string script;
  for (std::size_t i = 0; i < 33; ++i) script += name_of(i) + ":1+2 ";
  const std::string steps = steps_of(config(PolicyKind::rolling), ample(), script);
  EXPECT_TRUE(steps.ends_with(" | P[q32:1] | D[q32]")) << steps;
}

// S11: two are active, one is with the blocked worker, two are queued (the last place stays free), the rest is refused.
TEST(Rolling, RefusesWhatNeitherListNorWorkerNorQueueTakes) {
  const PolicyConfig policy = config(PolicyKind::rolling, [](PolicyConfig& c) {
    c.max_running = 2;
    c.queue_limit = 3;
  });
  EXPECT_EQ(steps_of(policy, ample(), "r1:4+2 r2:4+2 r3:4+2 r4:4+1 r5:4+1 r6:4+1 r7:4+1"),
            "P[r1:4 r2:4] rejected(r6 503, r7 503) | D[r1 r2] | P[r3:4 r4:4] | P[r5:4]; D[r3]");
}

// S11: nothing leaves for long. The worker gives up r3 after 120 s, and r4, its next, after another 120 s.
TEST(Rolling, GivesUpARequestThatWaited120SecondsForAPlace) {
  const PolicyConfig policy = config(PolicyKind::rolling, [](PolicyConfig& c) {
    c.max_running = 2;
    c.queue_limit = 3;
  });
  std::vector<TimedRequest> requests{{.name = "r1", .output = 300, .cap = 300},
                                     {.name = "r2", .output = 300, .cap = 300}};
  for (const char* name : {"r3", "r4", "r5"}) requests.push_back({.name = name});
  requests.push_back({.name = "r6", .at = 121 * kSecond});  // the queue has a free place again
  for (const Mode mode : {Mode::steps, Mode::leaps, Mode::silent_leaps}) {
    const TimedRun run = run_timed(policy, ample(), requests, {kSecond, mode});
    EXPECT_EQ(run.ended[0].serial, 2U);
    EXPECT_EQ(run.ended[0].http, 400);
    EXPECT_FALSE(run.ended[0].unfit);  // it is not too long: with less load it would have run
    EXPECT_EQ(run.ended[0].end, 120 * kSecond);
    EXPECT_EQ(run.ended[1].serial, 3U);
    EXPECT_EQ(run.ended[1].end, 240 * kSecond);
    EXPECT_EQ(run.launches, (std::vector<std::string>{"r1 r2 @0", "r5 r6 @300000"}));
  }
}

// The worker's clock does not wait for the end of a step: 120 s end inside the step from 90 s to 180 s, where the next
// request's 120 s begin. A place that becomes free exactly when the time ends is still taken (queued, at 360 s).
TEST(Rolling, CountsTheWaitForAPlaceBetweenSteps) {
  const PolicyConfig policy = config(PolicyKind::rolling, [](PolicyConfig& c) {
    c.max_running = 1;
    c.queue_limit = 2;
  });
  const std::vector<TimedRequest> requests{{.name = "a", .output = 4, .cap = 4},
                                           {.name = "b"},
                                           {.name = "c"},
                                           {.name = "refused", .at = 119 * kSecond},
                                           {.name = "queued", .at = 121 * kSecond}};
  for (const Mode mode : {Mode::steps, Mode::leaps}) {
    const TimedRun run = run_timed(policy, ample(), requests, {90 * kSecond, mode});
    EXPECT_EQ(run.log,
              "1: P[a:1]\n2: D[a]\n3: D[a] rejected(refused 503, b 400)\n4: D[a] rejected(c 400)\n"
              "5: P[queued:1]\n");
  }
}

// 4 blocks of 4 tokens. Both prompts fill two blocks, so the first decode finds no block: the whole list fails.
TEST(Rolling, FailsTheWholeListWhenAnIterationFindsNoBlocks) {
  const KvConfig kv{.blocks = 4, .block_tokens = 4, .prefix_caching = false};
  const PolicyConfig policy = config(PolicyKind::rolling, [](PolicyConfig& c) { c.max_running = 2; });
  EXPECT_EQ(steps_of(policy, kv, "A:8+3 B:8+3 C:4+2"), "P[A:8 B:8] | P[C:4] rejected(A 424, B 424) | D[C]");
  EXPECT_EQ(steps_of(policy, kv, "A:7+9 B:17+3@3"), "P[A:7] | D[A] | end: rejected(A 424, B 424)");
}

TEST(Rolling, ContiguousHasAsManyPlacesAsSlots) {
  const KvConfig kv{.blocks = 6, .block_tokens = 4, .prefix_caching = false};
  PolicyConfig policy = config(PolicyKind::rolling, [](PolicyConfig& c) { c.variant = PolicyVariant::contiguous; });
  policy.model_max_len = 12;
  EXPECT_EQ(steps_of(policy, kv, "A:4+3 B:4+2 C:4+2 D:12+4"),
            "P[A:4 B:4] rejected(D 422) | D[A B] | P[C:4]; D[A] | D[C]");
}

// The engine takes new requests in every third iteration: C arrives before step 3, whose iteration is the third.
TEST(Rolling, HoldsNewRequestsForWaitingSteps) {
  const PolicyConfig policy = config(PolicyKind::rolling, [](PolicyConfig& c) { c.force_after = 2; });
  EXPECT_EQ(steps_of(policy, ample(), "A:6+6 C:4+2@2"), "P[A:6] | D[A] | D[A] | P[C:4]; D[A] | D[A C] | D[A]");
  EXPECT_EQ(steps_of(policy, ample(), "A:6+6 C:4+2@5"), "P[A:6] | D[A] | D[A] | D[A] | D[A] | D[A] | P[C:4] | D[C]");
}

PolicyConfig draw_rolling() {
  PolicyConfig policy = config(PolicyKind::rolling);
  policy.variant = *rc::gen::element(PolicyVariant::standard, PolicyVariant::standard, PolicyVariant::contiguous);
  policy.max_running = sometimes(rc::gen::inRange<std::int64_t>(1, 6));
  policy.queue_limit = sometimes(rc::gen::inRange<std::int64_t>(1, 6));
  policy.force_after = sometimes(rc::gen::inRange<std::int64_t>(0, 4));
  policy.model_max_len = *rc::gen::element<Tok>(0, 0, 30, 48);
  return policy;
}

RC_GTEST_PROP(RollingProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_rolling(), draw_kv()); }

RC_GTEST_PROP(RollingProperty, ScriptsEndWithAllTokens, ()) {
  (void)check_script(draw_rolling(), draw_kv(), draw_requests());
}

}  // namespace
}  // namespace plimsoll::sched::testing

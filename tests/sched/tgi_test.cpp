// SPDX-License-Identifier: Apache-2.0
#include "sched/tgi.h"

#include "tests/sched/policy_checks.h"
#include "tests/sched/tgi_reference.h"

namespace plimsoll::sched::testing {
namespace {

PolicyConfig tgi() { return config(PolicyKind::tgi); }

TEST(Tgi, LetsRequestsJoinOnlyInTheServedRatio) {  // S1
  const std::string script = "A:6+3 B:5+4 C:4+2@3";
  EXPECT_EQ(steps_of(tgi(), ample(), script), "P[A:6 B:5] | D[A B] | D[A B] | P[C:4] | D[B C]");
  EXPECT_EQ(steps_of(config(PolicyKind::tgi, [](PolicyConfig& c) { c.served_ratio = 0.3; }), ample(), script),
            "P[A:6 B:5] | D[A B] | P[C:4] | D[A B C] | D[B]");
}

TEST(Tgi, KeepsToThePrefillBudget) {  // S2
  EXPECT_EQ(steps_of(config(PolicyKind::tgi, [](PolicyConfig& c) { c.prefill_token_budget = 16; }), ample(1),
                     "A:10+2 B:10+2 C:3+2"),
            "P[A:10] | P[B:10 C:3] | D[A B C]");
}

TEST(Tgi, OvershootsItsBatchSizeOnlyWithTheBugOf200) {  // S3
  const std::string script = "A:4+3 B:4+2 C:4+2 D:4+1";
  EXPECT_EQ(steps_of(config(PolicyKind::tgi,
                            [](PolicyConfig& c) {
                              c.max_running = 2;
                              c.tgi_batch_size_bug = true;
                            }),
                     ample(), script),
            "P[A:4 B:4] | P[C:4 D:4] | D[A B C] | D[A]");
  EXPECT_EQ(steps_of(config(PolicyKind::tgi, [](PolicyConfig& c) { c.max_running = 2; }), ample(), script),
            "P[A:4 B:4] | D[A B] | P[C:4] | D[A C] | P[D:4]");
}

TEST(Tgi, BlocksTheQueueBehindAHeadThatDoesNotFit) {  // S4
  EXPECT_EQ(steps_of(config(PolicyKind::tgi,
                            [](PolicyConfig& c) {
                              c.kv_token_budget = 24;
                              c.prefill_token_budget = 24;
                            }),
                     {.blocks = 6, .block_tokens = 4}, "A:8+4 B:20+2 C:4+2"),
            "P[A:8] | D[A] | D[A] | D[A] | P[B:20] | D[B] | P[C:4] | D[C]");
}

TEST(Tgi, ReservesTheCapForLife) {  // S5
  EXPECT_EQ(steps_of(tgi(), {.blocks = 4, .block_tokens = 4}, "A:4+6 B:4+6"),
            "P[A:4] | D[A] | D[A] | D[A] | D[A] | D[A] | P[B:4] | D[B] | D[B] | D[B] | D[B] | D[B]");
}

TEST(Tgi, ForcesAPrefillAfterWaitingTokens) {  // S8
  const std::string script = "A:16+12 B:16+12 C:16+12 D:16+12 E:16+2@2";
  EXPECT_EQ(steps_of(config(PolicyKind::tgi, [](PolicyConfig& c) { c.force_after = 4; }), ample(16), script),
            "P[A:16 B:16 C:16 D:16] | D[A B C D] | D[A B C D] | D[A B C D] | P[E:16] | D[A B C D E] | D[A B C D] | "
            "D[A B C D] | D[A B C D] | D[A B C D] | D[A B C D] | D[A B C D] | D[A B C D]");
  EXPECT_TRUE(steps_of(tgi(), ample(16), script).ends_with("D[A B C D] | P[E:16] | D[E]"));
  EXPECT_TRUE(steps_of(config(PolicyKind::tgi, [](PolicyConfig& c) { c.served_ratio = 0.3; }), ample(16), script)
                  .starts_with("P[A:16 B:16 C:16 D:16] | P[E:16] | D[A B C D E] | D[A B C D] |"));
  EXPECT_TRUE(steps_of(tgi(), ample(16), "A:16+8 B:16+8 E:16+2@2 F:16+2@3")
                  .starts_with("P[A:16 B:16] | D[A B] | P[E:16 F:16] | D[A B E F] | D[A B] |"));
}

TEST(Tgi, DecodesOnceAfterAPrefillWhateverWaits) {  // C, here from step 3 on, would meet the ratio at once
  EXPECT_EQ(steps_of(config(PolicyKind::tgi, [](PolicyConfig& c) { c.served_ratio = 0.3; }), ample(),
                     "A:4+4 B:4+3@2 C:4+1@3"),
            "P[A:4] | P[B:4] | D[A B] | P[C:4] | D[A B] | D[A]");
}

TEST(Tgi, NeverTakesMoreThanTheRealBlocks) {  // a budget above the pool of 16 tokens
  EXPECT_EQ(steps_of(config(PolicyKind::tgi, [](PolicyConfig& c) { c.kv_token_budget = 4096; }),
                     {.blocks = 4, .block_tokens = 4}, "A:4+2/9 B:4+2/9 C:16+1/2"),
            "P[A:4] rejected(C 422) | D[A] | P[B:4] | D[B]");
}

void compare_with_reference(const PolicyConfig& policy, const KvConfig& kv, const std::vector<Draw>& draws) {
  RC_ASSERT(check_script(policy, kv, draws).log == TgiReference(policy, kv, draws).run());
}

PolicyConfig draw_tgi() {
  PolicyConfig policy = tgi();
  policy.max_running = sometimes(rc::gen::inRange<std::int64_t>(1, 6));
  policy.served_ratio = *rc::gen::element(0.0, 0.3, 0.5, 1.0, 1.2, 2.0);
  policy.force_after = *rc::gen::element<std::int64_t>(0, 1, 2, 4, 20);
  policy.tgi_batch_size_bug = *rc::gen::inRange(0, 4) == 0;
  return policy;
}

RC_GTEST_PROP(TgiProperty, DecidesLikeTheRoutersLoop, ()) {
  PolicyConfig policy = draw_tgi();
  policy.prefill_token_budget = *rc::gen::inRange<std::int64_t>(24, 60);
  const KvConfig kv{.blocks = *rc::gen::element<Blk>(60, 80, 150),
                    .block_tokens = *rc::gen::element<Tok>(1, 2, 3, 4, 16),
                    .prefix_caching = false};
  policy.kv_token_budget =
      sometimes(rc::gen::inRange<std::int64_t>(std::min<std::int64_t>(60, kv.blocks), kv.blocks * kv.block_tokens + 1));
  if (policy.kv_token_budget && *policy.kv_token_budget < 64) policy.kv_token_budget = {};
  if (policy.kv_token_budget)
    policy.prefill_token_budget = std::min(*policy.prefill_token_budget, *policy.kv_token_budget);
  compare_with_reference(policy, kv, draw_requests());
}

RC_GTEST_PROP(TgiProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_tgi(), draw_kv()); }

// ---- version 3: chunked prefill ----------------------------------------------------------------------------------
PolicyConfig chunked(std::int64_t budget) {
  return config(PolicyKind::tgi, [budget](PolicyConfig& c) {
    c.variant = PolicyVariant::tgi_v3;
    c.prefill_token_budget = budget;
  });
}

// Budget 8. A takes all of it. The rest of A is a chunk of the next step and leaves 6 tokens, so B is cut to 6. Then
// the rest of B is computed with A's decode, without looking at the queue.
TEST(TgiChunked, CutsTheLastPromptAndCarriesTheBatchAlong) {
  EXPECT_EQ(steps_of(chunked(8), ample(1), "A:10+3 B:8+2"), "P[A:8] | P[A:2 B:6] | P[B:2] D[A] | D[A B]");
}

TEST(TgiChunked, StepsOnceAfterNewcomersJoined) {
  EXPECT_EQ(steps_of(chunked(16), ample(1), "A:4+5 B:4+3@2 C:4+2@3"),
            "P[A:4] | P[B:4] D[A] | D[A B] | P[C:4] D[A B] | D[A C]");
}

// Later chunks of B have 5 tokens: the budget of 6, less one for each other request.
TEST(TgiChunked, GivesLaterChunksTheBudgetLessAToken) {
  EXPECT_EQ(steps_of(chunked(6), ample(1), "A:3+4 B:12+1@1"), "P[A:3 B:3] | P[B:5] D[A] | P[B:4] D[A] | D[A]");
}

TEST(TgiChunked, AdmitsByTheBlocksThatARequestWillHold) {  // 5 + 4 - 1 tokens each, of 16
  EXPECT_EQ(steps_of(chunked(64), {.blocks = 4, .block_tokens = 4}, "A:5+4 B:5+4 C:5+1 D:10+8"),
            "P[A:5 B:5] rejected(D 422) | D[A B] | D[A B] | D[A B] | P[C:5]");
}

TEST(TgiChunked, SkipsACachedPrefix) {
  const PolicyConfig policy = chunked(64);
  Replica::Config setup;
  setup.policy = policy;
  setup.kv = {.blocks = 32, .block_tokens = 4, .prefix_caching = true};
  setup.keep_log = true;
  Replica replica(setup);
  const std::vector<std::uint64_t> hashes{1, 2, 3};
  double clock = 0;
  for (std::uint64_t serial = 0; serial < 2; ++serial) {  // one by one: the second finds the first one's blocks
    NewRequest request;
    request.serial = serial;
    request.input = 12;
    request.prefix_hashes = hashes;
    request.hash_block_tokens = 4;
    (void)replica.arrive(request, 0);
    ASSERT_TRUE(replica.decide(0));
    StepsTime time;
    time.start = clock;
    time.first = time.total = 1;
    time.end = clock += 1;
    replica.complete(time);
  }
  EXPECT_EQ(replica.log().text(), "1: P[r0:12]\n2: P[r1:4]\n");  // at least one token is computed; here a block
  EXPECT_EQ(replica.kv().free(), 32);
}

PolicyConfig draw_chunked() {
  PolicyConfig policy = chunked(*rc::gen::inRange<std::int64_t>(1, 30));
  policy.max_running = sometimes(rc::gen::inRange<std::int64_t>(1, 6));
  return policy;
}

RC_GTEST_PROP(TgiChunkedProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_chunked(), draw_kv()); }

RC_GTEST_PROP(TgiChunkedProperty, ScriptsEndWithAllTokens, ()) {
  (void)check_script(draw_chunked(), draw_kv(), draw_requests());
}

}  // namespace
}  // namespace plimsoll::sched::testing

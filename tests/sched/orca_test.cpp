// SPDX-License-Identifier: Apache-2.0
#include "sched/orca.h"

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

PolicyConfig orca(Reserve reserve = Reserve::max_len, Tok longest = 0) {
  PolicyConfig policy = config(PolicyKind::orca, [=](PolicyConfig& c) { c.reserve = reserve; });
  policy.model_max_len = longest;
  return policy;
}

TEST(Orca, PrefillsNewRequestsBesideTheRunningDecodes) {  // S1
  EXPECT_EQ(steps_of(orca(), ample(), "A:6+3 B:5+4 C:4+2@3"), "P[A:6 B:5] | D[A B] | P[C:4] D[A B] | D[B C]");
}

TEST(Orca, HasNoTokenBudget) {  // S2
  EXPECT_EQ(steps_of(orca(), ample(), "A:10+2 B:10+2 C:3+2"), "P[A:10 B:10 C:3] | D[A B C]");
}

TEST(Orca, KeepsToItsBatchSize) {  // S3
  PolicyConfig policy = orca();
  policy.max_running = 2;
  EXPECT_EQ(steps_of(policy, ample(), "A:4+3 B:4+2 C:4+2 D:4+1"), "P[A:4 B:4] | D[A B] | P[C:4] D[A] | P[D:4] D[C]");
}

TEST(Orca, ReservesSlotsOfTheLongestSequence) {  // S4 and S5
  EXPECT_EQ(steps_of(orca(Reserve::max_len, 24), {.blocks = 6, .block_tokens = 4}, "A:8+4 B:20+2 C:4+2"),
            "P[A:8] | D[A] | D[A] | D[A] | P[B:20] | D[B] | P[C:4] | D[C]");
  EXPECT_EQ(steps_of(orca(Reserve::max_len, 12), {.blocks = 4, .block_tokens = 4}, "A:4+6 B:4+6"),
            "P[A:4] | D[A] | D[A] | D[A] | D[A] | D[A] | P[B:4] | D[B] | D[B] | D[B] | D[B] | D[B]");
}

// 8 blocks of 4 tokens; A and B have prompt 4, output 5, cap 12. Capped: 4 blocks each. Next power of two: 4 + 8
// tokens, 3 blocks, so C (4 + 1, 2 blocks) fits in addition. Exact: 9 tokens, 3 blocks.
TEST(Orca, ReservesByTheChosenVariant) {
  const KvConfig kv{.blocks = 8, .block_tokens = 4, .prefix_caching = false};
  const std::string script = "A:4+5/12 B:4+5/12 C:4+1/1";
  EXPECT_EQ(steps_of(orca(Reserve::request_cap), kv, script),
            "P[A:4 B:4] | D[A B] | D[A B] | D[A B] | D[A B] | P[C:4]");
  const std::string all = "P[A:4 B:4 C:4] | D[A B] | D[A B] | D[A B] | D[A B]";
  EXPECT_EQ(steps_of(orca(Reserve::pow2), kv, script), all);
  EXPECT_EQ(steps_of(orca(Reserve::oracle), kv, script), all);
}

TEST(Orca, RefusesWhatWouldBlockItForEver) {
  EXPECT_EQ(steps_of(orca(), {.blocks = 2, .block_tokens = 4}, "A:8+1 B:4+4"),
            "P[B:4] rejected(A 422) | D[B] | D[B] | D[B]");
}

PolicyConfig draw_orca() {
  PolicyConfig policy = orca(*rc::gen::element(Reserve::max_len, Reserve::pow2, Reserve::request_cap, Reserve::oracle),
                             *rc::gen::element<Tok>(0, 0, 30, 48));
  policy.max_running = sometimes(rc::gen::inRange<std::int64_t>(1, 6));
  return policy;
}

RC_GTEST_PROP(OrcaProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_orca(), draw_kv()); }

RC_GTEST_PROP(OrcaProperty, ScriptsEndWithAllTokens, ()) {
  (void)check_script(draw_orca(), draw_kv(), draw_requests());
}

}  // namespace
}  // namespace plimsoll::sched::testing

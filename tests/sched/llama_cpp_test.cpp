// SPDX-License-Identifier: Apache-2.0
#include "sched/llama_cpp.h"

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

PolicyConfig llama(std::int64_t slots, PolicyVariant variant = PolicyVariant::standard) {
  return config(PolicyKind::llama_cpp, [=](PolicyConfig& c) {
    c.max_running = slots;
    c.variant = variant;
  });
}

PolicyConfig unified(std::int64_t slots) { return llama(slots, PolicyVariant::unified); }

KvConfig cells(Blk count) { return {.blocks = count, .block_tokens = 1, .prefix_caching = false}; }

// The last slot is taken first, and slots decide the order in a step.
TEST(LlamaCpp, AnswersInTheOrderOfTheSlots) {
  EXPECT_EQ(steps_of(unified(2), cells(100), "A:6+3 B:5+4"), "P[B:5 A:6] | D[B A] | D[B A] | D[B]");
}

TEST(LlamaCpp, PrefillsBesideDecodesUpToTheStepBudget) {
  PolicyConfig policy = unified(4);
  policy.step_token_budget = 8;
  EXPECT_EQ(steps_of(policy, cells(100), "A:6+4 B:9+2@2"), "P[A:6] | P[B:7] D[A] | P[B:2] D[A] | D[B A]");
}

// One pool: forwards of four tokens each, cut wherever one is full.
TEST(LlamaCpp, RunsAStepAsSeveralForwards) {
  PolicyConfig policy = unified(2);
  policy.forward_token_budget = 4;
  EXPECT_EQ(steps_of(policy, cells(100), "A:6+2 B:5+2"), "P[B:4]; P[B:1 A:3]; P[A:3] | D[B A]");
}

// Slots with cells of their own: equally many tokens of each slot in a forward.
TEST(LlamaCpp, SlotsShareAForwardEqually) {
  PolicyConfig policy = llama(2);
  policy.forward_token_budget = 8;
  EXPECT_EQ(steps_of(policy, cells(100), "A:6+2 B:5+2"), "P[B:4 A:4]; P[B:1 A:1]; P[A:1] | D[B A]");
}

// Slots 0, 1, 2 hold C, B, A. When B has ended, the slots of A and C are not adjacent: two forwards for two tokens.
TEST(LlamaCpp, OnlyNeighbouringSlotsShareAForward) {
  EXPECT_EQ(steps_of(llama(3), cells(100), "A:4+3 B:4+1 C:4+3"), "P[C:4 B:4 A:4] | D[C]; D[A] | D[C]; D[A]");
  EXPECT_EQ(steps_of(unified(3), cells(100), "A:4+3 B:4+1 C:4+3"), "P[C:4 B:4 A:4] | D[C A] | D[C A]");
}

// C and D came when both slots were busy. B and A end in one step, B's slot first; each slot that ends moves the next
// deferred request to the front of the queue. So D is served before C and takes the slot that was used longest ago:
// B's.
TEST(LlamaCpp, TwoSlotsThatEndTogetherSwapTheirHeirs) {
  EXPECT_EQ(steps_of(unified(2), cells(100), "A:2+2 B:2+2 C:3+1 D:4+1"), "P[B:2 A:2] | D[B A] | P[D:4 C:3]");
}

TEST(LlamaCpp, WaitsForASlotInOrderOfArrival) {
  EXPECT_EQ(steps_of(unified(1), cells(100), "A:2+2 B:3+1 C:4+1"), "P[A:2] | D[A] | P[B:3] | P[C:4]");
}

// A pool of 20 cells: each of two slots has 10, one pool has 20 for the same request.
TEST(LlamaCpp, RefusesWhatIsLongerThanASlot) {
  EXPECT_EQ(steps_of(llama(2), cells(20), "A:8+3 B:8+2"), "P[B:8] rejected(A 400) | D[B]");
  EXPECT_EQ(steps_of(unified(2), cells(20), "A:8+3"), "P[A:8] | D[A] | D[A]");
  PolicyConfig longest = unified(2);
  longest.model_max_len = 10;
  EXPECT_EQ(steps_of(longest, cells(20), "A:8+3 B:8+2"), "P[B:8] rejected(A 400) | D[B]");
}

// One pool of 10 cells and two requests that would need 12: when the pool is full, every slot loses its request, and
// the next one finds it empty.
TEST(LlamaCpp, AFullPoolFailsEveryRequest) {
  EXPECT_EQ(steps_of(unified(2), cells(10), "A:4+6 B:4+6 C:2+1"),
            "P[B:4 A:4] | D[B A] | P[C:2] rejected(B 500, A 500)");
}

PolicyConfig draw_config() {
  PolicyConfig policy =
      llama(*rc::gen::inRange<std::int64_t>(1, 6), *rc::gen::element(PolicyVariant::standard, PolicyVariant::unified));
  policy.step_token_budget = sometimes(rc::gen::inRange<std::int64_t>(1, 40));
  policy.forward_token_budget = sometimes(rc::gen::inRange<std::int64_t>(1, 12));
  policy.model_max_len = *rc::gen::element<Tok>(0, 0, 30, 48);
  return policy;
}

RC_GTEST_PROP(LlamaCppProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_config(), draw_kv()); }

RC_GTEST_PROP(LlamaCppProperty, ScriptsEndWithAllTokens, ()) {
  check_script(draw_config(), draw_kv(), draw_requests());
}

}  // namespace
}  // namespace plimsoll::sched::testing

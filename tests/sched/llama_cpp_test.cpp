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

// A run of llama-server (of llama-cpp-python 0.3.36, --parallel 4 --no-kv-unified --batch-size 64 --ubatch-size 32) on
// 2026-11-23: nine requests came while the first forwards of A ran. Its log states the tokens of each slot in each
// step, and the slots that the requests took; the forwards of a step follow from its sources.
TEST(LlamaCpp, DecidesLikeARunOfTheServer) {
  PolicyConfig policy = llama(4);
  policy.step_token_budget = 64;
  policy.forward_token_budget = 32;
  EXPECT_EQ(steps_of(policy, cells(4096),
                     "A:300+6 B:40+5@2 C:70+3@2 D:10+9@2 E:33+4@2 F:90+2@2 G:5+7@2 H:64+3@2 I:50+5@2 J:20+4@2"),
            "P[A:32]; P[A:32] | P[D:10 C:10]; P[C:32]; P[C:12] | "
            "P[C:1 B:1 A:1] D[D]; P[C:6 B:6 A:6]; P[C:9 B:9]; P[B:24] | "
            "P[A:1] D[D C B]; P[A:32]; P[A:28] | P[A:1] D[D C B]; P[A:32]; P[A:28] | "
            "P[E:1] D[D]; P[A:1] D[B]; P[E:32]; P[A:28] | P[A:1] D[D E B]; P[A:32]; P[A:28] | "
            "P[F:1] D[D E]; P[F:32]; P[F:29] | P[F:1 A:1] D[D E]; P[F:16 A:16]; P[F:11] | "
            "P[G:1] D[D]; D[F A]; P[G:4] | P[H:1] D[G]; D[A]; P[I:32]; P[I:18]; P[H:11] | "
            "P[H:1] D[I G]; D[A]; P[H:32]; P[H:19] | D[I G H A] | D[I G H A] | P[J:1] D[I G]; P[J:19] | "
            "D[G J] | D[J] | D[J]");
}

// One pool of 10 cells and two requests that would need 12: when the pool is full, every slot loses its request, and
// the next one finds it empty.
TEST(LlamaCpp, AFullPoolFailsEveryRequest) {
  EXPECT_EQ(steps_of(unified(2), cells(10), "A:4+6 B:4+6 C:2+1"),
            "P[B:4 A:4] | D[B A] | P[C:2] rejected(B 500, A 500)");
}

KvConfig keeping(Blk count) {
  return {.blocks = count, .block_tokens = 1, .prefix_caching = true, .partial_first = false, .in_slots = true};
}

// A's prompt stays in slot 1. B begins like it and goes there, not to slot 0, which was never used.
TEST(LlamaCppPrompts, StayInTheirSlot) {
  const Prompts prompts = {{"A", "ppppxx"}, {"B", "ppppyyy"}};
  for (const PolicyConfig& policy : {llama(2), unified(2)}) {
    EXPECT_EQ(steps_of(policy, keeping(100), "A:6+2 B:7+2@3", prompts), "P[A:6] | D[A] | P[B:3] | D[B]");
    EXPECT_EQ(steps_of(policy, cells(100), "A:6+2 B:7+2@3", prompts), "P[A:6] | D[A] | P[B:7] | D[B]");
  }
}

// At least one token must be computed, so that there are logits to sample from.
TEST(LlamaCppPrompts, TheLastTokenOfAKnownPromptIsComputed) {
  EXPECT_EQ(
      steps_of(llama(2), keeping(100), "A:6+2 B:6+1@3 C:4+1@4", {{"A", "pppppp"}, {"B", "pppppp"}, {"C", "pppp"}}),
      "P[A:6] | D[A] | P[B:1] | P[C:1]");
}

// Slot 1 serves A while B comes: slot 0 knows nothing. C comes when both are free: of equal ones, the first is taken.
// It is slot 0, so that D finds A's own prompt in slot 1.
TEST(LlamaCppPrompts, OfBusySlotsAreNotUsed) {
  const Prompts prompts = {{"A", "ppppaa"}, {"B", "ppppbb"}, {"C", "ppppcc"}, {"D", "ppppaad"}};
  EXPECT_EQ(steps_of(llama(2), keeping(100), "A:6+3 B:6+1@2 C:6+1@4 D:7+1@5", prompts),
            "P[A:6] | D[A]; P[B:6] | D[A] | P[C:2] | P[D:1]");
}

// One token of twelve is less than a tenth: B goes to slot 0, the one used longest ago. Where there is only one slot,
// or where no part is too small, the token is reused.
TEST(LlamaCppPrompts, AShortCommonPrefixDoesNotChooseTheSlot) {
  const Prompts prompts = {{"A", "pxxx"}, {"B", "pyyyyyyyyyyy"}};
  const std::string script = "A:4+1 B:12+1@2";
  EXPECT_EQ(steps_of(llama(2), keeping(100), script, prompts), "P[A:4] | P[B:12]");
  EXPECT_EQ(steps_of(llama(1), keeping(100), script, prompts), "P[A:4] | P[B:11]");
  PolicyConfig similar = llama(2);
  similar.slot_prompt_similarity = 0.05;
  EXPECT_EQ(steps_of(similar, keeping(100), script, prompts), "P[A:4] | P[B:11]");
  similar.slot_prompt_similarity = 0;  // never by its prompt
  EXPECT_EQ(steps_of(similar, keeping(100), "A:4+1 B:4+1@2", {{"A", "pppp"}, {"B", "pppp"}}), "P[A:4] | P[B:4]");
}

// A's prompt of 6 cells stays in slot 1. B takes 8 cells of slot 0: in a pool of 12, A's prompt has to go. A pool of 14
// holds both.
TEST(LlamaCppPrompts, MakeWayInOnePool) {
  const Prompts prompts = {{"A", "aaaaaa"}, {"B", "bbbbbbbb"}, {"C", "aaaaaa"}};
  const std::string script = "A:6+1 B:8+1@2 C:6+1@3";
  EXPECT_EQ(steps_of(unified(2), keeping(12), script, prompts), "P[A:6] | P[B:8] | P[C:6]");
  EXPECT_EQ(steps_of(unified(2), keeping(14), script, prompts), "P[A:6] | P[B:8] | P[C:1]");
}

// B's decodes fill the pool in a leap, which ends with B. A's prompt went in between.
TEST(LlamaCppPrompts, MakeWayForDecodesToo) {
  const Prompts prompts = {{"A", "aaaaaa"}, {"B", "bb"}, {"C", "aaaaaa"}};
  const std::string script = "A:6+1 B:2+6@2 C:6+1@8";
  EXPECT_EQ(steps_of(unified(2), keeping(12), script, prompts),
            "P[A:6] | P[B:2] | D[B] | D[B] | D[B] | D[B] | D[B] | P[C:6]");
  EXPECT_EQ(steps_of(unified(2), keeping(14), script, prompts),
            "P[A:6] | P[B:2] | D[B] | D[B] | D[B] | D[B] | D[B] | P[C:1]");
}

// C and D find six tokens each in their slots. D's other six fill the step, so C waits for the next one, but what it
// found is in the pool and counted once: at the end of that next step D stores 13 tokens and C 11.
TEST(LlamaCppPrompts, TakeTheirRoomBeforeTheyAreComputed) {
  const Prompts prompts = {{"A", "aaaaaa"}, {"B", "bbbbbb"}, {"C", "aaaaaaxxxxxx"}, {"D", "bbbbbbyyyyyy"}};
  PolicyConfig policy = unified(3);
  policy.step_token_budget = 6;
  const std::string script = "A:6+1 B:6+1@2 C:12+1@3 D:12+2@3";
  EXPECT_EQ(steps_of(policy, keeping(24), script, prompts), "P[A:6] | P[B:6] | P[D:6] | P[C:5] D[D] | P[C:1]");
  EXPECT_EQ(run_script(policy, keeping(24), script, false, prompts).peak_used, 24);
}

PolicyConfig draw_llama_cpp() {
  PolicyConfig policy =
      llama(*rc::gen::inRange<std::int64_t>(1, 6), *rc::gen::element(PolicyVariant::standard, PolicyVariant::unified));
  policy.step_token_budget = sometimes(rc::gen::inRange<std::int64_t>(1, 40));
  policy.forward_token_budget = sometimes(rc::gen::inRange<std::int64_t>(1, 12));
  policy.model_max_len = *rc::gen::element<Tok>(0, 0, 30, 48);
  return policy;
}

RC_GTEST_PROP(LlamaCppProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_llama_cpp(), draw_kv()); }

RC_GTEST_PROP(LlamaCppProperty, ScriptsEndWithAllTokens, ()) {
  check_script(draw_llama_cpp(), draw_kv(), draw_requests());
}

// Prompts of two letters often begin alike. However often they are found, every request ends once, and leaps
// decide what steps decide.
RC_GTEST_PROP(LlamaCppProperty, KeptPromptsOnlySaveWork, ()) {
  const std::vector<Draw> requests = draw_requests();
  std::string script;
  Prompts prompts;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Draw& d = requests[i];
    script += fmt::format("{}{}:{}+{}@{}", script.empty() ? "" : " ", name_of(i), d.prompt, d.output, d.step);
    const auto same = static_cast<std::size_t>(*rc::gen::inRange<Tok>(0, d.prompt + 1));
    prompts[name_of(i)] = std::string(same, 'a') + std::string(static_cast<std::size_t>(d.prompt) - same, 'b');
  }
  const PolicyConfig policy = draw_llama_cpp();
  KvConfig kv = keeping(*rc::gen::inRange<Blk>(30, 400));
  kv.block_tokens = *rc::gen::element<Tok>(1, 4);
  (void)steps_of(policy, kv, script, prompts);
  const double cells = static_cast<double>(kv.blocks * kv.block_tokens);
  RC_ASSERT(run_script(policy, kv, script, false, prompts).peak_used <= cells);
  // If the prompts' contents are unknown, no prompt stays in a slot.
  KvConfig off = kv;
  off.prefix_caching = off.in_slots = false;
  RC_ASSERT(steps_of(policy, kv, script) == steps_of(policy, off, script));
}

}  // namespace
}  // namespace plimsoll::sched::testing

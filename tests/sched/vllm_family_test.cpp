// SPDX-License-Identifier: Apache-2.0
// vLLM V0 and V1, Sarathi, TensorRT-LLM and SGLang on the conformance scenarios. The decisions of these small scripts
// come from the product's own scheduler or from a model written after its source (docs/policies.md states which).
#include <gtest/gtest.h>

#include "tests/sched/script_harness.h"

namespace plimsoll::sched {
namespace {

using testing::ample;
using testing::run_script;

PolicyConfig of(PolicyKind kind, PolicyVariant variant = PolicyVariant::standard) {
  PolicyConfig config;
  config.policy = kind;
  config.variant = variant;
  return config;
}
PolicyConfig with_budget(PolicyConfig config, std::int64_t budget) {
  config.step_token_budget = budget;
  return config;
}
KvConfig blocks(Blk count, Tok size = 4) { return {.blocks = count, .block_tokens = size, .prefix_caching = false}; }

// Checks that stepwise and leaping runs both give the text.
void expect_log(const PolicyConfig& config, const KvConfig& kv, const std::string& script,
                const std::string& expected) {
  EXPECT_EQ(run_script(config, kv, script).log, expected);
  EXPECT_EQ(run_script(config, kv, script, true).log, expected);
}

const char* const kS1 = "A:6+3 B:5+4 C:4+2@3";
const char* const kPrefillFirst = "1: P[A:6 B:5]\n2: D[A B]\n3: P[C:4]\n4: D[A B C]\n5: D[B]\n";
const char* const kChunked = "1: P[A:6 B:2]\n2: P[B:3] D[A]\n3: P[C:4] D[A B]\n4: D[B C]\n5: D[B]\n";
const char* const kMixed = "1: P[A:6 B:5]\n2: D[A B]\n3: P[C:4] D[A B]\n4: D[B C]\n";

TEST(S1Basic, VllmV0PrefillsFirst) { expect_log(of(PolicyKind::vllm_v0), ample(), kS1, kPrefillFirst); }
TEST(S1Basic, SglangAsVllmV0) { expect_log(of(PolicyKind::sglang), ample(1), kS1, kPrefillFirst); }
TEST(S1Basic, ChunkedVllmV0) {
  expect_log(with_budget(of(PolicyKind::vllm_v0, PolicyVariant::vllm_chunked), 8), ample(), kS1, kChunked);
}
TEST(S1Basic, SarathiChunksLikeVllmV0) { expect_log(with_budget(of(PolicyKind::sarathi), 8), ample(), kS1, kChunked); }
TEST(S1Basic, VllmV1ChunksLikeVllmV0) { expect_log(with_budget(of(PolicyKind::vllm_v1), 8), ample(), kS1, kChunked); }
TEST(S1Basic, VllmV1MixesWithEnoughBudget) {
  expect_log(with_budget(of(PolicyKind::vllm_v1), 16), ample(), kS1, kMixed);
}
TEST(S1Basic, TrtLlmMixes) {
  for (const CapacityPolicy capacity : {CapacityPolicy::guaranteed_no_evict, CapacityPolicy::max_utilization}) {
    PolicyConfig config = of(PolicyKind::trtllm);
    config.capacity_policy = capacity;
    expect_log(config, ample(), kS1, kMixed);
  }
}

const char* const kS2 = "A:10+2 B:10+2 C:3+2";
TEST(S2TokenBudget, VllmV0TakesWholePrompts) {
  expect_log(with_budget(of(PolicyKind::vllm_v0), 16), ample(), kS2, "1: P[A:10]\n2: P[B:10 C:3]\n3: D[A B C]\n");
}
TEST(S2TokenBudget, ChunksFillTheBudget) {
  const char* const expected = "1: P[A:10 B:6]\n2: P[B:4 C:3] D[A]\n3: D[B C]\n";
  expect_log(with_budget(of(PolicyKind::vllm_v1), 16), ample(), kS2, expected);
  expect_log(with_budget(of(PolicyKind::sarathi), 16), ample(), kS2, expected);
  expect_log(with_budget(of(PolicyKind::vllm_v0, PolicyVariant::vllm_chunked), 16), ample(), kS2, expected);
}
TEST(S2TokenBudget, WithoutChunks) {
  PolicyConfig v1 = with_budget(of(PolicyKind::vllm_v1), 16);
  v1.chunked = false;
  const char* const expected = "1: P[A:10]\n2: P[B:10 C:3] D[A]\n3: D[B C]\n";
  expect_log(v1, ample(), kS2, expected);
  expect_log(with_budget(of(PolicyKind::trtllm), 16), ample(), kS2, expected);
}
TEST(S2TokenBudget, SglangWithAndWithoutChunks) {
  PolicyConfig config = with_budget(of(PolicyKind::sglang), 16);
  expect_log(config, ample(1), kS2, "1: P[A:10 B:6]\n2: P[B:4 C:3]\n3: D[A B C]\n");
  config.chunked = false;
  expect_log(config, ample(1), kS2, "1: P[A:10]\n2: P[B:10 C:3]\n3: D[A B C]\n");
}

const char* const kS3 = "A:4+3 B:4+2 C:4+2 D:4+1";
TEST(S3Slots, TwoAtATime) {
  PolicyConfig config = of(PolicyKind::vllm_v0);
  config.max_running = 2;
  const char* const prefill_first = "1: P[A:4 B:4]\n2: D[A B]\n3: P[C:4]\n4: D[A C]\n5: P[D:4]\n";
  expect_log(config, ample(), kS3, prefill_first);
  config.policy = PolicyKind::sglang;
  expect_log(config, ample(1), kS3, prefill_first);
  for (const PolicyKind kind : {PolicyKind::vllm_v1, PolicyKind::sarathi, PolicyKind::trtllm}) {
    config.policy = kind;
    expect_log(config, ample(), kS3, "1: P[A:4 B:4]\n2: D[A B]\n3: P[C:4] D[A]\n4: P[D:4] D[C]\n");
  }
}

const char* const kS4 = "A:8+4 B:20+2 C:4+2";
const char* const kS4Preempting = "1: P[A:8]\n2: D[A]\n3: D[A]\n4: D[A]\n5: P[B:20 C:4]\n6: D[B] !C\n7: P[C:5]\n";
const char* const kS4Reserving = "1: P[A:8]\n2: D[A]\n3: D[A]\n4: D[A]\n5: P[B:20]\n6: D[B]\n7: P[C:4]\n8: D[C]\n";
TEST(S4HeadOfLine, VllmWithALargeBudget) {
  expect_log(with_budget(of(PolicyKind::vllm_v0), 32), blocks(6), kS4, kS4Preempting);
  expect_log(with_budget(of(PolicyKind::vllm_v1), 32), blocks(6), kS4, kS4Preempting);
}
TEST(S4HeadOfLine, VllmV1WithASmallBudget) {
  PolicyConfig config = with_budget(of(PolicyKind::vllm_v1), 16);
  expect_log(config, blocks(6), kS4,
             "1: P[A:8 B:8]\n2: D[A] !B\n3: D[A]\n4: D[A]\n5: P[B:16]\n6: P[B:4 C:4]\n7: D[B] !C\n8: P[C:5]\n");
  config.reserve_full_sequence = true;
  expect_log(config, blocks(6), kS4,
             "1: P[A:8]\n2: D[A]\n3: D[A]\n4: D[A]\n5: P[B:16]\n6: P[B:4 C:4]\n7: D[B] !C\n8: P[C:5]\n");
}
TEST(S4HeadOfLine, SarathiStopsAfterTheLastToken) {
  expect_log(with_budget(of(PolicyKind::sarathi), 16), blocks(6), kS4,
             "1: P[A:8]\n2: D[A]\n3: D[A]\n4: D[A]\n5: P[B:16]\n6: P[B:4 C:4]\n7: D[B] !C\n8: P[C:5]\n");
}
TEST(S4HeadOfLine, ThoseThatReserve) {
  expect_log(of(PolicyKind::trtllm), blocks(6), kS4, kS4Reserving);
  expect_log(of(PolicyKind::sglang), blocks(24, 1), kS4, kS4Reserving);
}
TEST(S4HeadOfLine, TrtLlmMaxUtilizationPauses) {
  PolicyConfig config = of(PolicyKind::trtllm);
  config.capacity_policy = CapacityPolicy::max_utilization;
  expect_log(config, blocks(6), kS4, kS4Preempting);
}

const char* const kS5 = "A:4+6 B:4+6";
TEST(S5OutOfMemory, VllmV0PreemptsFourTimes) {
  expect_log(
      of(PolicyKind::vllm_v0), blocks(4), kS5,
      "1: P[A:4 B:4]\n2: D[A B]\n3: D[A] !B\n4: P[B:6]\n5: D[A] !B\n6: P[B:7]\n7: D[A] !B\n8: P[B:8]\n9: D[A] !B\n"
      "10: P[B:9]\n");
}
TEST(S5OutOfMemory, VllmV1AndMaxUtilizationPreemptOnce) {
  const char* const expected = "1: P[A:4 B:4]\n2: D[A B]\n3: D[A B]\n4: D[A B]\n5: D[A B]\n6: D[A] !B\n7: P[B:9]\n";
  expect_log(of(PolicyKind::vllm_v1), blocks(4), kS5, expected);
  PolicyConfig config = of(PolicyKind::trtllm);
  config.capacity_policy = CapacityPolicy::max_utilization;
  expect_log(config, blocks(4), kS5, expected);
}
// With caching, the preempted request finds its first block again: 4 of its 9 tokens are cached.
TEST(S5OutOfMemory, VllmV1ResumesOnItsOwnCachedBlocks) {
  KvConfig kv = blocks(4);
  kv.prefix_caching = true;
  expect_log(of(PolicyKind::vllm_v1), kv, kS5,
             "1: P[A:4 B:4]\n2: D[A B]\n3: D[A B]\n4: D[A B]\n5: D[A B]\n6: D[A] !B\n7: P[B:5]\n");
}
TEST(S5OutOfMemory, Sarathi) {
  expect_log(
      of(PolicyKind::sarathi), blocks(4), kS5,
      "1: P[A:4 B:4]\n2: D[A B]\n3: D[A] !B\n4: P[B:6] D[A]\n5: D[A] !B\n6: D[A]\n7: P[B:7]\n8: D[B]\n9: D[B]\n");
}
TEST(S5OutOfMemory, ThoseThatReserve) {
  const char* const expected =
      "1: P[A:4]\n2: D[A]\n3: D[A]\n4: D[A]\n5: D[A]\n6: D[A]\n7: P[B:4]\n8: D[B]\n9: D[B]\n10: D[B]\n11: D[B]\n12: "
      "D[B]\n";
  expect_log(of(PolicyKind::trtllm), blocks(4), kS5, expected);
  expect_log(of(PolicyKind::sglang), blocks(16, 1), kS5, expected);
}

const char* const kS7 = "A:20+2 B:3+3 C:3+2@2";
TEST(S7LongPrefill, ChunkedPolicies) {
  const char* const expected = "1: P[A:12]\n2: P[A:8 B:3 C:1]\n3: P[C:2] D[A B]\n4: D[B C]\n";
  expect_log(with_budget(of(PolicyKind::vllm_v1), 12), ample(), kS7, expected);
  expect_log(with_budget(of(PolicyKind::sarathi), 12), ample(), kS7, expected);
  expect_log(with_budget(of(PolicyKind::vllm_v0, PolicyVariant::vllm_chunked), 12), ample(), kS7, expected);
}
TEST(S7LongPrefill, VllmV1Threshold) {
  PolicyConfig config = with_budget(of(PolicyKind::vllm_v1), 12);
  config.long_prefill_threshold = 4;
  expect_log(config, ample(), kS7,
             "1: P[A:4 B:3]\n2: P[A:4 C:3] D[B]\n3: P[A:4] D[B C]\n4: P[A:4]\n5: P[A:4]\n6: D[A]\n");
}
TEST(S7LongPrefill, Sglang) {
  expect_log(with_budget(of(PolicyKind::sglang), 12), ample(1), kS7,
             "1: P[A:12]\n2: P[A:8 B:3 C:1]\n3: P[C:2]\n4: D[A B C]\n5: D[B]\n");
}

// Swapping keeps what was computed; a swapped-out request always returns before new requests start.
TEST(VllmV0Swap, SwapsOutAndIn) {
  PolicyConfig config = of(PolicyKind::vllm_v0);
  config.preemption = Preemption::swap;
  config.swap_blocks = 100;
  const auto run = run_script(config, blocks(4), "A:4+6 B:4+6 C:4+1@3");
  EXPECT_NE(run.log.find("!B"), std::string::npos) << run.log;
  EXPECT_NE(run.log.find("+B"), std::string::npos) << run.log;
  EXPECT_LT(run.log.find("+B"), run.log.find("P[C:4]")) << run.log;
  EXPECT_EQ(run.log, run_script(config, blocks(4), "A:4+6 B:4+6 C:4+1@3", true).log);
}

// Version 0.1 runs whole prompts in the same step as the decodes.
TEST(VllmV0Variant01, MixesWholePrompts) {
  expect_log(of(PolicyKind::vllm_v0, PolicyVariant::vllm_01), ample(), kS1, kMixed);
}

// Requests that a pool of this size could never finish are refused, and do not block the others.
TEST(NeverFits, IsRefused) {
  for (const PolicyKind kind :
       {PolicyKind::vllm_v0, PolicyKind::vllm_v1, PolicyKind::sarathi, PolicyKind::trtllm, PolicyKind::sglang}) {
    const auto run = run_script(of(kind), blocks(4), "A:40+2 B:4+2");
    EXPECT_NE(run.log.find("rejected(A"), std::string::npos) << name(kind) << "\n" << run.log;
    EXPECT_NE(run.log.find("P[B:4]"), std::string::npos) << name(kind) << "\n" << run.log;
  }
}

// Chunked V0 requires a free block before every chunk: a prompt that fills the whole pool would restart for ever.
TEST(NeverFits, ChunkedPromptThatFillsThePoolIsRefused) {
  const PolicyConfig config = with_budget(of(PolicyKind::vllm_v0, PolicyVariant::vllm_chunked), 8);
  const auto run = run_script(config, blocks(4), "A:16+1 B:4+2");
  EXPECT_NE(run.log.find("rejected(A 500)"), std::string::npos) << run.log;
  EXPECT_NE(run.log.find("P[B:4]"), std::string::npos) << run.log;
}

}  // namespace
}  // namespace plimsoll::sched

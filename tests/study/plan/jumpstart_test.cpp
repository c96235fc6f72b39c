// SPDX-License-Identifier: Apache-2.0
// Asks the planner the questions that the AWS post on JumpStart endpoints answers by measurements (Llama 2, 256 + 256
// tokens, TGI). docs/validation.md has the measured tables.
#include <gmock/gmock.h>

#include "tests/study/plan/plan_study.h"

namespace plimsoll::study::plan {
namespace {

using ::testing::HasSubstr;

constexpr const char* kJumpStart =
    "study: jumpstart\nmodel: llama-2-7b\ndtype: fp16\nhardware: ml.p4d.24xlarge\nengine: tgi-1.1\n"
    "scheduler: {max_concurrent: 512, max_input: 4095, max_total: 4096, max_batch_prefill_tokens: 4096}\n"
    "workload:\n  load: {closed_loop: {concurrency: 512}}\n  lengths: {input: 256, output: 256}\n  requests: 1536\n"
    "search:\n  tp: [1, 2, 4, 8]\n  replicas_per_instance: [max]\n  instance_count: [1]\n  objective: throughput\n";

class JumpStartTest : public PlanFolder {};

// "For Llama 2 7B … 8 copies of TP 1 give the most throughput": 8 x 1 775 tokens/s measured, against 4 x 2 730 at TP 2
// and 3 087 at TP 8.
TEST_F(JumpStartTest, SevenBillionOnAnA100EachForThroughput) {
  const Searched found = search(kJumpStart);
  EXPECT_EQ(found.winner().spec.deployment.tp, 1) << found.winner_name();
  EXPECT_EQ(found.winner().spec.deployment.replicas, 8);
}

// 13B leaves little memory for KV on an A100 of 40 GB. Measured were 4 x 1 726 at TP 2, against 8 x 722 at TP 1 and 2 x
// 2 819 at TP 4.
TEST_F(JumpStartTest, ThirteenBillionOnTwoA100EachForThroughput) {
  const Searched found = search(kJumpStart, {{"model", "llama-2-13b"}});
  EXPECT_EQ(found.winner().spec.deployment.tp, 2) << found.winner_name();
  EXPECT_EQ(found.winner().spec.deployment.replicas, 4);
}

// Measured with one client: 33 ms per token on ml.g5.2xlarge, 17 ms at TP 4 on ml.g5.12xlarge.
TEST_F(JumpStartTest, TheLargerG5IsFaster) {
  const Searched found = search(kJumpStart, {{"search.instances", "[ml.g5.2xlarge, ml.g5.12xlarge]"},
                                             {"search.objective", "latency"},
                                             {"workload.concurrency", "1"},
                                             {"workload.requests", "20"}});
  EXPECT_THAT(found.winner_name(), HasSubstr("ml.g5.12xlarge x 1: tp 4"));
}

// Measured at the best load: 486 tokens/s for 1.5 USD/h, against 1 214 for 7.1 USD/h.
TEST_F(JumpStartTest, TheSmallerG5IsCheaper) {
  const Searched found = search(kJumpStart, {{"search.instances", "[ml.g5.2xlarge, ml.g5.12xlarge]"},
                                             {"search.objective", "cost"},
                                             {"search.tp", "[max]"},
                                             {"search.instance_count", "[1, 2, 3, 4, 6, 8]"},
                                             {"workload.concurrency", "64"},
                                             {"workload.requests", "400"},
                                             {"slo", "{p90_latency_per_token: 130 ms}"}});
  EXPECT_EQ(found.winner().spec.hardware.label, "ml.g5.2xlarge") << found.winner_name();
}

// The post's cost per token, with each instance at the concurrency that stays within 60 s: 0.87 USD per million on
// ml.g5.2xlarge, 1.62 on ml.g5.12xlarge at TP 4.
TEST_F(JumpStartTest, ATokenIsCheaperOnTheSmallerG5) {
  const Searched found = search(kJumpStart, {{"search.instances", "[ml.g5.2xlarge, ml.g5.12xlarge]"},
                                             {"search.objective", "cost_per_token"},
                                             {"search.tp", "[max]"},
                                             {"workload.concurrency", "32"},
                                             {"workload.requests", "200"},
                                             {"slo", "{p90_latency: 40 s}"}});
  EXPECT_EQ(found.winner().spec.hardware.label, "ml.g5.2xlarge") << found.winner_name();
  const Entry& best = found.answer.entries[*found.answer.winner];
  EXPECT_GT(best.objective.mean, 0.4);
  EXPECT_LT(best.objective.mean, 1.6);
}

}  // namespace
}  // namespace plimsoll::study::plan

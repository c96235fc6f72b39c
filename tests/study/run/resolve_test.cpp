// SPDX-License-Identifier: Apache-2.0
#include "study/run/resolve.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulate.h"
#include "study/output/memory_table.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

class ResolveTest : public StudyFolder {
 protected:
  [[nodiscard]] ResolvedPoint resolve(const Overrides& overrides) const {
    return resolve_point(read(kSmallStudy, overrides), 0);
  }
};

TEST_F(ResolveTest, CostCountsWholeInstances) {
  // 9 replicas of TP 2: four fit on the eight GPUs of an instance, so three instances at 37.688 USD/h are needed
  // (SageMaker, 2025-04).
  const ResolvedPoint point = resolve({{"deployment.tp", "2"}, {"deployment.replicas", "9"}});
  EXPECT_EQ(point.result.instances, 3);
  EXPECT_DOUBLE_EQ(*point.result.usd_per_hour, 3 * 37.688);
}

TEST_F(ResolveTest, OnDemandPricesDependOnTheDate) {
  // p4d.24xlarge costs 32.77 USD/h in 2025-04, 21.96 in 2026-07.
  EXPECT_NEAR(*resolve({{"hardware", "p4d.24xlarge"}, {"price_date", "2025-04"}}).result.usd_per_hour, 32.77, 0.01);
  EXPECT_NEAR(*resolve({{"hardware", "p4d.24xlarge"}}).result.usd_per_hour, 21.96, 0.01);
}

TEST_F(ResolveTest, MaxMeansAllAcceleratorsOfAnInstance) {
  EXPECT_EQ(resolve({{"deployment.tp", "max"}}).scenario->tp, 8);
}

TEST_F(ResolveTest, StatedBlocksReplaceThePool) {
  EXPECT_EQ(resolve({{"scheduler.kv_blocks", "77"}}).scenario->kv.blocks, 77);
}

// The same memory gives vLLM one block less: its block 0 holds nothing. Both policies reserve for equal forwards.
TEST_F(ResolveTest, ADerivedPoolLosesTheNullBlock) {
  const auto blocks = [&](const char* policy) {
    return resolve({{"scheduler", "{max_running: 64, step_token_budget: 2048, block_size: 16}"},
                    {"scheduler.policy", policy}})
        .scenario->kv.blocks;
  };
  EXPECT_EQ(blocks("vllm_v1"), blocks("sarathi") - 1);
  EXPECT_EQ(blocks("vllm_v0"), blocks("sarathi"));
}

TEST_F(ResolveTest, PrioritiesAreSharesOfTheRequests) {
  const Overrides by_priority = {{"scheduler", "{policy: vllm_v1, scheduling: priority}"},
                                 {"workload.priorities", "{0: 9, -5: 1.5}"}};
  const ResolvedPoint point = resolve(by_priority);
  EXPECT_EQ(point.scenario->workload.priorities, (std::vector<load::PriorityClass>{{0, 9}, {-5, 1.5}}));
  const auto told = [&](const Overrides& overrides) {
    const std::vector<std::string> notes = read(kSmallStudy, overrides).notes();
    return std::any_of(notes.begin(), notes.end(),
                       [](const std::string& n) { return n.find("priorities have no effect") != std::string::npos; });
  };
  EXPECT_FALSE(told(by_priority));
  EXPECT_TRUE(told({{"scheduler", "{policy: vllm_v1}"}, {"workload.priorities", "{0: 9, 5: 1}"}}));
  for (const char* const wrong : {"4", "{}", "[0, 5]", "{high: 1}", "{1.5: 1}", "{0: 0}", "{0: -1}"})
    EXPECT_THROW((void)resolve({{"workload.priorities", wrong}}), InputError) << wrong;
}

// Only requests that are the rows of a trace have their priorities. If other lengths or another load drop them, a note
// reports it, unless the study draws priorities itself.
TEST_F(ResolveTest, PrioritiesOfATraceThatAreDroppedAreNoted) {
  const std::string trace = write("trace.csv", "arrival_s,input_tokens,output_tokens,priority\n0,10,5,0\n1,20,6,7\n");
  const std::string load = "{trace: {file: " + trace + "}}", rows = "{trace: " + trace + "}";
  const auto told = [&](const std::string& stated_load, const std::string& lengths, const char* priorities = "") {
    Overrides overrides = {{"scheduler", "{policy: vllm_v1, scheduling: priority}"},
                           {"workload.requests", "2"},
                           {"workload.load", stated_load},
                           {"workload.lengths", lengths}};
    if (*priorities != '\0') overrides.emplace_back("workload.priorities", priorities);
    const std::vector<std::string> notes = read(kSmallStudy, overrides).notes();
    return std::any_of(notes.begin(), notes.end(),
                       [](const std::string& n) { return n.find("are not used: they apply") != std::string::npos; });
  };
  EXPECT_FALSE(told(load, rows));
  EXPECT_TRUE(told(load, "{input: 8, output: 8}"));
  EXPECT_TRUE(told("{poisson: {rate: 1 /s}}", rows));
  EXPECT_FALSE(told(load, "{input: 8, output: 8}", "{0: 9, 5: 1}"));
}

TEST_F(ResolveTest, ALargerShareOfMemoryGivesMoreBlocks) {
  const auto blocks = [&](const char* fraction) {
    return resolve({{"scheduler.mem_fraction", fraction}}).scenario->kv.blocks;
  };
  EXPECT_LT(blocks("0.5"), blocks("0.9"));
}

TEST_F(ResolveTest, UncalibratedFiguresAreFlagged) {
  const ResolvedPoint point = resolve({{"hardware", "{accelerator: l4, count: 1}"}});
  EXPECT_NE(point.result.extrapolates.find("l4"), std::string::npos);
  EXPECT_EQ(point.result.labels.hardware, "l4 x 1");
  EXPECT_FALSE(point.result.usd_per_hour.has_value());
}

// vLLM's profile was fitted only on Qwen3 32B in bf16 on H100 (validation/published/serving-h100.csv): TP 2 to 8, 8 to
// 128 users, prompts of 1024 to 4096 tokens, and answers of 128 to 1024.
constexpr const char* kFitted =
    "model: qwen3-32b\ndtype: bf16\nhardware: {accelerator: h100-sxm, count: 8}\nengine: vllm-0.12\ndeployment: {tp: "
    "2}\n"
    "workload: {load: {closed_loop: {concurrency: 32}}, lengths: {input: 1024, output: 1024}, requests: 320}\n";

TEST_F(ResolveTest, WhatWasFittedIsCalibratedAndAllElseSaysWhyNot) {
  const auto reason = [&](const Overrides& overrides) {
    return resolve_point(read(kFitted, overrides), 0).result.extrapolates;
  };
  EXPECT_EQ(reason({}), "");
  EXPECT_EQ(reason({{"dtype", "fp16"}}), "");  // it has the same bytes and rates
  EXPECT_EQ(reason({{"engine", "vllm"}}), "");
  const std::vector<std::pair<Overrides, std::string>> cases = {
      {{{"model", "llama-3.1-8b"}}, "8.03 B parameters (fitted: 32.76 B)"},
      {{{"model", "qwen3-30b-a3b"}}, "a mixture of experts"},
      {{{"dtype", "fp8"}}, "fp8 weights (fitted: bf16)"},
      {{{"dtype", "int4"}}, "int4 weights (fitted: bf16)"},
      {{{"kv_dtype", "fp8"}}, "fp8 KV cache (fitted: bf16)"},
      {{{"deployment.tp", "1"}}, "tp 1 (fitted: 2 to 8)"},
      {{{"hardware", "{accelerator: h200-sxm, count: 8}"}}, "accelerator h200-sxm"},
      {{{"workload.concurrency", "1"}}, "1 users per replica (fitted: 8 to 128)"},
      {{{"workload.lengths.input", "128"}}, "prompts of 128 tokens (fitted: 1024 to 4096)"},
      {{{"workload.lengths.output", "2000"}}, "answers of 2000 tokens (fitted: 128 to 1024)"},
      {{{"engine", "vllm-0.9"}}, "version 0.9"}};
  for (const auto& [overrides, text] : cases)
    EXPECT_NE(reason(overrides).find(text), std::string::npos) << text << ": " << reason(overrides);
}

TEST_F(ResolveTest, BandsAreWiderBeyondTheFit) {
  const auto factors = [&](const Overrides& overrides) {
    return resolve_point(read(kFitted, overrides), 0).scenario->uncertainty;
  };
  const model::TimeUncertainty inside = factors({}), outside = factors({{"model", "llama-3.1-8b"}});
  EXPECT_LT(outside.decode_low, inside.decode_low);
  EXPECT_GT(outside.decode_high, inside.decode_high);
}

// The profile's drift applies to equal requests of a closed loop under the engine's own policy, unless the study states
// another; it applies to nothing else.
TEST_F(ResolveTest, EqualRequestsOfAClosedLoopDriftAsTheEngineWasFitted) {
  const auto drift = [&](const Overrides& overrides) {
    return resolve_point(read(kFitted, overrides), 0).scenario->drift.cv;
  };
  EXPECT_DOUBLE_EQ(drift({}), 0.02);
  EXPECT_DOUBLE_EQ(drift({{"workload.load.closed_loop.drift", "off"}}), 0);
  EXPECT_DOUBLE_EQ(drift({{"workload.load.closed_loop.drift", "0.05"}}), 0.05);
  EXPECT_DOUBLE_EQ(drift({{"engine", "ideal"}}), 0);
  EXPECT_DOUBLE_EQ(drift({{"engine", "ideal"}, {"workload.load.closed_loop.drift", "0.05"}}), 0.05);
  // SGLang's answers of 1024 tokens drift by up to 10, evenly; behind Dynamo its requests stay in step.
  EXPECT_DOUBLE_EQ(drift({{"engine", "sglang-0.5"}}), 10 / std::sqrt(3) / 1024);
  EXPECT_DOUBLE_EQ(drift({{"engine", "sglang-0.5"}, {"workload.lengths.output", "4"}}), 0.5);  // at most half
  EXPECT_DOUBLE_EQ(drift({{"engine", "sglang-0.5"}, {"engine_front_end", "dynamo"}}), 0);
  EXPECT_DOUBLE_EQ(drift({{"workload.concurrency", "1"}}), 0);
  EXPECT_DOUBLE_EQ(drift({{"scheduler.policy", "static"}}), 0);
  EXPECT_DOUBLE_EQ(drift({{"workload.lengths.output", "{lognormal: {mean: 1024, cv: 0.5}}"}}), 0);
  for (const char* load : {"{poisson: {rate: 1 /s}}", "{burst: {count: 8}}", "{jumpstart: {concurrency: 8}}"})
    EXPECT_DOUBLE_EQ(drift({{"workload.load", load}}), 0) << load;
  EXPECT_THROW((void)drift({{"workload.load.closed_loop.drift", "2"}}), InputError);
}

TEST_F(ResolveTest, TheResolvedStudyStatesTheDrift) {
  const auto states = [&](const std::string& study, const Overrides& overrides = {}) {
    return read(study, overrides).resolved_yaml().find("drift: 0.02") != std::string::npos;
  };
  EXPECT_TRUE(states(kFitted));
  EXPECT_TRUE(
      states(std::string(kFitted) + "sweep: {workload.concurrency: [1, 8, 16]}\n"));     // one user drifts from nothing
  EXPECT_FALSE(states(std::string(kFitted) + "sweep: {engine: [vllm-0.12, ideal]}\n"));  // which have different ones
  EXPECT_FALSE(states(kFitted, {{"engine", "ideal"}}));
}

// TP 2, 32 users, 1024 + 1024: 237 ms were measured. Without drift, all requests would always prefill together.
TEST_F(ResolveTest, APlainClosedLoopHasTheFirstTokensOfTheFit) {
  const auto ttft = [&](const Overrides& overrides) {
    return *sim::simulate(*resolve_point(read(kFitted, overrides), 0).scenario).metrics.ttft.mean;
  };
  EXPECT_NEAR(ttft({}), 0.237, 0.25 * 0.237);
  EXPECT_GT(ttft({{"workload.load.closed_loop.drift", "off"}}), 1);
}

TEST_F(ResolveTest, AConstantEngineNeedsNeitherModelNorHardware) {
  const ResolvedPoint point = resolve_point(read(kTinyStudy), 0);
  ASSERT_TRUE(point.scenario.has_value());
  EXPECT_TRUE(point.result.extrapolates.empty());
}

// The arithmetic of the JumpStart post for Llama 2 7B in fp16 on an A10G (24 GB, 70 TFLOP/s, 600 GB/s). It holds four
// sequences of 4096 tokens, its critical batch is 116, and naive attention has 62 operations per byte.
TEST_F(ResolveTest, MemoryRepeatsTheJumpStartPost) {
  const MemoryTable table =
      memory_table(read(kSmallStudy, {{"hardware", "ml.g5.2xlarge"}, {"scheduler.max_total", "4096"}}));
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].max_kv_batch, 4);
  EXPECT_EQ(table.rows[0].critical_batch, 116);
  EXPECT_EQ(static_cast<int>(table.rows[0].attention_intensity), 62);
}

TEST_F(ResolveTest, MemoryHasARowForEachDeployment) {
  const MemoryTable table = memory_table(
      read(std::string(kSmallStudy) + "sweep: {deployment.tp: [1, 2], workload.concurrency: [1, 2, 4]}\n"));
  EXPECT_EQ(table.swept_keys, std::vector<std::string>{"deployment.tp"});
  EXPECT_EQ(table.rows.size(), 2U);
}

// 71 attention heads cannot be divided by 2: only what does not depend on the degree is known for such a deployment.
TEST_F(ResolveTest, MemoryOfADegreeThatCannotExistIsBlankWithItsReason) {
  const MemoryTable table =
      memory_table(read(std::string(kSmallStudy) + "sweep: {deployment.tp: [1, 2]}\n", {{"model", "falcon-7b"}}));
  ASSERT_EQ(table.rows.size(), 2U);
  const std::vector<std::string> columns = memory_columns(table);
  const std::vector<Cell> possible = memory_cells(table.rows[0]), impossible = memory_cells(table.rows[1]);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool reason = columns[i] == "infeasible";
    const bool independent = columns[i] == "deployment.tp" || columns[i] == "critical_batch" ||
                             columns[i] == "attention_intensity" || columns[i] == "longest_tokens";
    EXPECT_EQ(plain_text(possible[i]).empty(), reason) << columns[i];
    EXPECT_EQ(plain_text(impossible[i]).empty(), !reason && !independent) << columns[i];
  }
  EXPECT_EQ(plain_text(impossible.back()),
            "tp 2 is impossible for falcon-7b: 71 attention heads do not divide by tp 2");
  EXPECT_EQ(memory_text("", table).find(" 0  "), std::string::npos);
}

TEST(ShippedStudies, CanAllBeRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies")) {
    SCOPED_TRACE(entry.path().string());
    const Study study(entry.path().string(), {}, shipped_catalogue());
    for (std::size_t i = 0; i < study.point_count(); ++i) EXPECT_FALSE(resolve_point(study, i).impossible.has_value());
    ++count;
  }
  EXPECT_GE(count, 7);
}

}  // namespace
}  // namespace plimsoll::study

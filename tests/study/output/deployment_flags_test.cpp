// SPDX-License-Identifier: Apache-2.0
#include "study/output/deployment_flags.h"

#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

class DeploymentFlagsTest : public StudyFolder {
 protected:
  PointSpec spec(const std::string& engine, const std::string& scheduler) {
    return read("model: llama-2-7b\nhardware: ml.p4d.24xlarge\nengine: " + engine + "\ndeployment: {tp: 4}\nscheduler: " + scheduler +
                "\nworkload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 8, output: 8}, requests: 10}\n").point(0);
  }
};

TEST_F(DeploymentFlagsTest, TgiIsToldByItsEnvironment) {
  const std::string text = deployment_flags(spec("tgi-1.1", "{max_running: 64, max_input: 4095, max_total: 4096}"));
  for (const char* const line : {"NUM_SHARD=4\n", "MAX_BATCH_SIZE=64\n", "MAX_INPUT_LENGTH=4095\n", "MAX_TOTAL_TOKENS=4096\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  }
}

TEST_F(DeploymentFlagsTest, WhatIsWrittenReadsBackAsTheSameScheduler) {
  const PointSpec stated = spec("tgi-1.1", "{max_running: 64, max_input: 4095, max_total: 4096}");
  std::istringstream lines(deployment_flags(stated));
  std::string map;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const std::size_t equals = line.find('=');
    const std::string name = line.substr(0, equals);
    if (name == "MODEL_ID" || name == "DTYPE" || name == "NUM_SHARD") continue;
    map += (map.empty() ? "" : ", ") + name + ": " + line.substr(equals + 1);
  }
  const PointSpec back = spec("tgi-1.1", "{" + map + "}");
  EXPECT_EQ(back.policy.max_running, stated.policy.max_running);
  EXPECT_EQ(back.policy.max_input, stated.policy.max_input);
  EXPECT_EQ(back.policy.max_total, stated.policy.max_total);
  EXPECT_EQ(back.policy.prefill_token_budget, stated.policy.prefill_token_budget);
}

TEST_F(DeploymentFlagsTest, VllmIsToldByACommand) {
  const std::string text = deployment_flags(spec("vllm-0.12", "{max_running: 96, step_token_budget: 2048}"));
  EXPECT_TRUE(text.starts_with("vllm serve meta-llama/Llama-2-7b-hf")) << text;
  for (const char* const flag : {"--tensor-parallel-size 4", "--dtype float16", "--max-num-seqs 96", "--max-num-batched-tokens 2048"}) {
    EXPECT_NE(text.find(flag), std::string::npos) << flag << " in\n" << text;
  }
}

TEST_F(DeploymentFlagsTest, ARollingBatchIsAnLmiPropertyFile) {
  const std::string text = deployment_flags(spec("lmi-dist-0.24", "{max_running: 48}"));
  for (const char* const line : {"option.tensor_parallel_degree=4\n", "option.rolling_batch=lmi-dist\n", "option.max_rolling_batch_size=48\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  }
}

TEST_F(DeploymentFlagsTest, WhatNoProductRunsSaysSo) {
  const PointSpec orca = spec("ideal", "{policy: orca, max_running: 8}");
  EXPECT_TRUE(deploy_files(orca).empty());
  EXPECT_TRUE(deployment_flags(orca).starts_with("#"));
}

// Llama 3.1 8B takes sequences of 131 072 tokens; beside its weights a GPU of 24 GB holds some 26 000: vLLM would not start.
TEST_F(DeploymentFlagsTest, TheLongestSequenceFitsThePool) {
  const auto flags = [&](const std::string& hardware) {
    return deployment_flags(read("model: llama-3.1-8b\ndtype: bf16\nhardware: " + hardware + "\nengine: vllm-0.12\n"
                                 "workload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 512, output: 512}, requests: 10}\n").point(0));
  };
  const std::string small = flags("g6.xlarge"), large = flags("p5.4xlarge");
  const std::size_t at = small.find("--max-model-len ");
  ASSERT_NE(at, std::string::npos) << small;
  const long length = std::strtol(small.c_str() + at + 16, nullptr, 10);
  EXPECT_GE(length, 1024);
  EXPECT_LT(length, 27'000);
  EXPECT_EQ(large.find("--max-model-len"), std::string::npos) << large;
}

TEST_F(DeploymentFlagsTest, LmiRunsVllmInPython) {
  const auto properties = [&](const std::string& engine) { return deploy_files(spec(engine, "{}")).back().text; };
  EXPECT_NE(properties("vllm-0.6").find("engine=Python\n"), std::string::npos);
  EXPECT_NE(properties("trtllm-1.0").find("engine=MPI\n"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::study

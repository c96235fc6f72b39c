// SPDX-License-Identifier: Apache-2.0
#include "study/deployment_flags.h"

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
  for (const char* const line : {"NUM_SHARD=4\n", "MAX_BATCH_SIZE=64\n", "MAX_INPUT_TOKENS=4095\n", "MAX_TOTAL_TOKENS=4096\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  }
}

TEST_F(DeploymentFlagsTest, WhatIsWrittenReadsBackAsTheSameScheduler) {
  const PointSpec stated = spec("tgi-1.1", "{max_running: 64, max_input: 4095, max_total: 4096}");
  std::istringstream lines(tgi_environment(stated));
  std::string map;
  for (std::string line; std::getline(lines, line);) {
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
  EXPECT_TRUE(text.starts_with("vllm serve llama-2-7b --dtype float16 --tensor-parallel-size 4 --max-num-seqs 96 --max-num-batched-tokens 2048")) << text;
}

}  // namespace
}  // namespace plimsoll::study

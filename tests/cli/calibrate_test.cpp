// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CalibrateTest : public CommandTest {};

TEST_F(CalibrateTest, HelpListsOnlyOptionsThatAct) {
  const std::string calibrate = run("calibrate --help").output, forward = run("forward --help").output;
  for (const char* option : {"--stepwise", "--set", "--format", "--seed"})
    EXPECT_THAT(calibrate, Not(HasSubstr(option)));
  for (const char* option : {"--out", "--quiet", "--progress", "--jobs"}) EXPECT_THAT(calibrate, HasSubstr(option));
  for (const char* option : {"--stepwise", "--set", "--format"}) EXPECT_THAT(forward, Not(HasSubstr(option)));
  // Every verb takes the common options all the same; those that do nothing say so.
  const Outcome list = run("list policies --jobs 2 --stepwise");
  EXPECT_EQ(list.exit, 0);
  EXPECT_THAT(list.output, HasSubstr("--jobs has no effect on list"));
  EXPECT_THAT(list.output, HasSubstr("--stepwise has no effect on list"));
  EXPECT_THAT(run("list policies --jobs x").output, HasSubstr("--jobs: found 'x'"));
}

TEST_F(CalibrateTest, RefusesWhatItCannotMeasure) {
  EXPECT_THAT(run("calibrate --dtype int8").output, HasSubstr("--dtype: found 'int8', allowed: bf16, fp32"));
  EXPECT_THAT(run("calibrate --ranks 2,4").output, HasSubstr("begin with 1"));
  EXPECT_THAT(run("calibrate --device tpu").output, HasSubstr("allowed: cpu, cuda"));
}

TEST_F(CalibrateTest, AMachineWithoutAGpuSaysSoInOneLine) {
  const Outcome outcome = run("calibrate --device cuda --seconds 5");
  if (outcome.exit == 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  EXPECT_FALSE(std::filesystem::exists(file("data")));  // nothing was begun
}

// It used to be ignored, and the shipped table fitted in its stead.
TEST_F(CalibrateTest, AnEngineRefusesFilesThatItCannotBeFittedTo) {
  const std::string out = " --out " + file("cal");
  const Outcome missing = run("calibrate --engine vllm-0.12 --from " + file("none.csv") + out);
  EXPECT_EQ(missing.exit, 2);
  EXPECT_THAT(missing.output, HasSubstr("none.csv"));
  const Outcome unusable = run("calibrate --engine vllm-0.12 --from " + write("kernels.csv", "a,b\n1,2\n") + out);
  EXPECT_EQ(unusable.exit, 2);
  EXPECT_THAT(unusable.output, HasSubstr("kernels.csv"));
  const std::string header =
      "model,hardware,engine,dtype,tp,replicas,input_tokens,output_tokens,load_kind,load_value,ttft_mean_s\n";
  const Outcome other = run(
      "calibrate --engine vllm-0.12 --from " +
      write("sglang.csv", header + "qwen3-32b,h100-sxm x 8,sglang-0.5,bf16,8,1,1024,128,closed_loop,16,0.35\n") + out);
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.output, HasSubstr("no row was measured with the engine 'vllm-0.12'"));
  const Outcome own =
      run("calibrate --engine vllm-0.12 --from " +
          write("own.csv", header + "qwen3-32b,h100-sxm x 8,vllm-0.12,bf16,8,1,1024,128,closed_loop,16,0.35\n") + out);
  EXPECT_EQ(own.exit, 2);
  EXPECT_THAT(own.output, HasSubstr("plimsoll validate"));
  EXPECT_FALSE(std::filesystem::exists(file("cal")));
}

TEST_F(CalibrateTest, ValidateNamesTheGroupsThatCanBeLeftOut) {
  const Outcome outcome = run("validate jumpstart --leave-group-out engine");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.output, HasSubstr("allowed: model, accelerator, tp, length, batch"));
}

// The study is for a GPU that is not here; nothing is measured.
TEST_F(CalibrateTest, LiveValidationIsOfThisMachine) {
  const Outcome other = run("validate --live " + write("tiny.yaml", kTinyStudy));
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.output, HasSubstr("hardware: this-machine"));
  EXPECT_THAT(run("validate jumpstart --live x.yaml").output, HasSubstr("--live replaces the table"));
}

}  // namespace
}  // namespace plimsoll::study

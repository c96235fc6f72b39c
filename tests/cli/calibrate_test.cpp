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
  for (const char* option : {"--stepwise", "--set", "--format", "--seed"}) EXPECT_THAT(calibrate, Not(HasSubstr(option)));
  for (const char* option : {"--out", "--quiet", "--progress", "--jobs"}) EXPECT_THAT(calibrate, HasSubstr(option));
  for (const char* option : {"--stepwise", "--set", "--format"}) EXPECT_THAT(forward, Not(HasSubstr(option)));
  // Every verb takes the common options all the same; those that do nothing say so.
  const Outcome list = run("list policies --jobs 2 --stepwise");
  EXPECT_EQ(list.exit, 0);
  EXPECT_THAT(list.output, HasSubstr("--jobs does nothing for list"));
  EXPECT_THAT(list.output, HasSubstr("--stepwise does nothing for list"));
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
  EXPECT_FALSE(std::filesystem::exists(file("data")));   // nothing was begun
}

// The study is for a GPU that is not here; nothing is measured.
TEST_F(CalibrateTest, LiveValidationIsOfThisMachine) {
  const Outcome other = run("validate --live " + write("tiny.yaml", kTinyStudy));
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.output, HasSubstr("hardware: this-machine"));
  EXPECT_THAT(run("validate jumpstart --live x.yaml").output, HasSubstr("--live takes the place"));
}

}  // namespace
}  // namespace plimsoll::study

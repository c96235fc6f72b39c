// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
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
  // Every verb accepts the common options; it reports those that have no effect.
  const Outcome list = run("list policies --jobs 2 --stepwise");
  EXPECT_EQ(list.exit, 0);
  EXPECT_THAT(list.output, HasSubstr("--jobs has no effect on list"));
  EXPECT_THAT(list.output, HasSubstr("--stepwise has no effect on list"));
  EXPECT_THAT(run("list policies --jobs x").output, HasSubstr("--jobs: found 'x'"));
}

TEST_F(CalibrateTest, RefusesWhatItCannotMeasure) {
  EXPECT_THAT(run("calibrate --dtype fp8").output,
              HasSubstr("--dtype: found 'fp8', allowed: a list of bf16, fp32, int4, int8, each once"));
  EXPECT_THAT(run("calibrate --dtype int8,int8").output, HasSubstr("--dtype: found 'int8,int8'"));
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

constexpr const char* kRunColumns =
    "model,hardware,engine,dtype,tp,replicas,input_tokens,output_tokens,load_kind,load_value,requests,ttft_mean_s,"
    "tpot_mean_s\n";

// Six runs of a small model: a first token takes 30 ms and 0.1 ms for each prompt of the wave, a step 4 ms and 50 us
// for each user. Their one unknown is the engine's.
std::string few_runs(const std::string& engine, const std::string& hardware = "a100-sxm-80gb x 1") {
  std::string text = kRunColumns;
  for (const int users : {1, 2, 3, 4, 6, 8})
    text += fmt::format("llama-3.2-1b,{},{},bf16,1,1,128,16,closed_loop,{},{},{},{}\n", hardware, engine, users,
                        3 * users, 0.03 + 0.0001 * users, 0.004 + 0.00005 * users);
  return text;
}

// No file is written under the name of a shipped profile, whatever the input contains.
TEST_F(CalibrateTest, AnEngineOfOnesOwnHasANameOfItsOwn) {
  const std::string runs = " --from " + write("runs.csv", few_runs("vllm-0.12")) + " --out " + file("cal");
  for (const char* const name : {"vllm-0.12", "vLLM", "../x", "a/b"}) {
    const Outcome refused = run("calibrate --engine '" + std::string(name) + "'" + runs);
    EXPECT_EQ(refused.exit, 2) << name;
    EXPECT_THAT(refused.output, HasSubstr("--engine: ")) << name;
    EXPECT_EQ(std::count(refused.output.begin(), refused.output.end(), '\n'), 1) << refused.output;
  }
  EXPECT_FALSE(std::filesystem::exists(file("cal")));
}

TEST_F(CalibrateTest, RunsThatCannotBeFittedAreRefusedInOneLine) {
  const std::string header = kRunColumns;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {file("none.csv"), "none.csv"},
      {write("kernels.csv", "a,b\n1,2\n"), "kernels.csv"},
      {write("empty.csv", ""), "empty.csv"},
      {write("zeros.bin", std::string(4096, '\0')), "zeros.bin"},
      {write("json.json", "{\"a\": "), "json.json"},
      {write("one.csv", header + "llama-3.2-1b,a100-sxm-80gb x 1,vllm-0.12,bf16,1,1,8,8,closed_loop,1,3,0.03,0.004\n"),
       "1 different run can be fitted"},
      {write("model.csv", header + "no-such,a100-sxm-80gb x 1,vllm-0.12,bf16,1,1,8,8,closed_loop,1,3,0.03,0.004\n"),
       "model.csv"},
      {write("minus.csv", header + "llama-3.2-1b,a100-sxm-80gb x 1,vllm-0.12,bf16,1,1,8,8,closed_loop,1,3,-1,0.004\n"),
       "ttft_mean_s: found '-1'"},
      {write("unnamed.csv", few_runs("my server")), "--like: the runs name no engine"},
      {write("two.csv", few_runs("SGLang 0.5.1") + few_runs("vLLM 0.12.0").substr(header.size())),
       "the runs are of several engines"}};
  for (const auto& [name, text] : cases) {
    const Outcome outcome = run("calibrate --engine mine --from " + name + " --out " + file("cal"), "2>&1 >/dev/null");
    EXPECT_EQ(outcome.exit, 2) << name << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text)) << name;
  }
  EXPECT_THAT(run("calibrate --engine mine --like x --from " + write("a.csv", few_runs("x"))).output,
              HasSubstr("unknown engine 'x'"));
  EXPECT_THAT(run("calibrate --engine vllm-0.12 --like vllm-0.10").output, HasSubstr("--from or --endpoint"));
  EXPECT_THAT(run("calibrate --like vllm-0.10").output, HasSubstr("--engine"));
  EXPECT_FALSE(std::filesystem::exists(file("cal")));
}

// The whole way from runs to a prediction. Every verb finds the written profile by its name, and the profile states its
// origin.
TEST_F(CalibrateTest, AFittedEngineIsReadByEveryVerb) {
  const Outcome fitted = run("calibrate --engine mine --from " + write("runs.csv", few_runs("vLLM 0.12.0")));
  ASSERT_EQ(fitted.exit, 0) << fitted.output;
  EXPECT_THAT(fitted.output, HasSubstr("like vllm-0.12; 5 runs are fitted, 1 is held out"));
  const std::string profile = read_text(file("data/plimsoll/engines/mine.yaml"));
  for (const char* const part : {"like: vllm-0.12", "versions: [\"0.12.0\"]", "batch: [1, 8]", "runs.csv (data "})
    EXPECT_THAT(profile, HasSubstr(part));
  EXPECT_FALSE(std::filesystem::exists(file("data/plimsoll/accelerators")));
  EXPECT_THAT(run("list engines").output, HasSubstr("mine"));
  const std::string study =
      "simulate --model llama-3.2-1b --hardware a100-sxm-80gb --engine mine --input 128 --output 16";
  const Outcome inside = run(study + " --users 4 --format csv"), outside = run(study + " --users 40");
  EXPECT_EQ(inside.exit, 0) << inside.output;
  EXPECT_THAT(inside.output, Not(HasSubstr("outside the fitted range")));
  EXPECT_THAT(outside.output, HasSubstr("outside the fitted range of mine"));
}

// A second fit under the same name replaces the first and its accelerator, which does not count as known hardware.
TEST_F(CalibrateTest, TheSameCommandFitsAnew) {
  const std::string command =
      "calibrate --engine mine --like vllm-0.12 --from " + write("runs.csv", few_runs("my server", "some-box x 1"));
  const auto files = [&] {
    const Outcome fitted = run(command);
    EXPECT_EQ(fitted.exit, 0) << fitted.output;
    return read_text(file("data/plimsoll/engines/mine.yaml")) + read_text(file("data/plimsoll/accelerators/mine.yaml"));
  };
  const std::string first = files();
  EXPECT_EQ(files(), first);
}

// A fit starts from a shipped profile: neither --like nor a server's version selects a user's own profile.
TEST_F(CalibrateTest, AProfileOfOnesOwnIsNoStart) {
  const std::string runs = " --from " + write("runs.csv", few_runs("vLLM 0.12.0"));
  ASSERT_EQ(run("calibrate --engine vllm-0.99" + runs).exit, 0);
  EXPECT_THAT(run("calibrate --engine other --like vllm-0.99" + runs).output, HasSubstr("is a profile of your own"));
  const std::string newer = write("newer.csv", few_runs("vLLM 1.0.0"));
  EXPECT_THAT(run("calibrate --engine other --from " + newer).output, HasSubstr("like vllm-0.24"));
}

// Every option without effect on the requested fit is rejected, with a message that names the fit it applies to.
TEST_F(CalibrateTest, OptionsOfAnotherFitAreRefused) {
  const std::string runs = write("runs.csv", few_runs("vLLM 0.12.0"));
  for (const char* const option : {"--tp 2", "--hardware x", "--fit-hardware", "--users 4", "--input 8", "--insecure"})
    EXPECT_THAT(run(std::string("calibrate ") + option).output, HasSubstr("give it a name with --engine")) << option;
  for (const char* const option : {"--users 4", "--input 8", "--output 8", "--seconds 60"})
    EXPECT_THAT(run("calibrate --engine mine --from " + runs + " " + option).output,
                HasSubstr("state it with --endpoint"));
  EXPECT_THAT(run("calibrate --engine mine --from " + runs + " --ranks 1").output, HasSubstr("--ranks has no effect"));
}

TEST_F(CalibrateTest, ALadderOfTooFewRunsIsNotBegun) {
  const Outcome few = run("calibrate --engine mine --endpoint http://127.0.0.1:1 --users 2 --input 64 --output 8,16");
  EXPECT_EQ(few.exit, 2);
  EXPECT_THAT(few.output, HasSubstr("the ladder has 4 runs, at least 6 are needed"));
}

TEST_F(CalibrateTest, AnEndpointIsAskedBeforeTheLadder) {
  const std::string own = "calibrate --engine mine --endpoint http://127.0.0.1:1";
  EXPECT_EQ(run(own).exit, 3);  // there is no server
  EXPECT_THAT(run(own + " --from x.csv").output, HasSubstr("--from and --endpoint exclude each other"));
  EXPECT_THAT(run("calibrate --endpoint http://127.0.0.1:1").output, HasSubstr("give it a name with --engine"));
  EXPECT_THAT(run(own + " --memory 3").output, HasSubstr("--memory: "));
}

// If the second file cannot be written, the first one is not left behind.
TEST_F(CalibrateTest, NothingIsHalfWritten) {
  std::filesystem::create_directories(file("cal/accelerators/mine.yaml"));  // a folder cannot become a file
  const Outcome outcome = run("calibrate --engine mine --like vllm-0.12 --from " +
                              write("runs.csv", few_runs("my server", "some-box x 1")) + " --out " + file("cal"));
  EXPECT_EQ(outcome.exit, 3) << outcome.output;
  EXPECT_FALSE(std::filesystem::exists(file("cal/engines/mine.yaml")));
}

TEST_F(CalibrateTest, ValidateNamesTheGroupsThatCanBeLeftOut) {
  const Outcome outcome = run("validate jumpstart --leave-group-out engine");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.output, HasSubstr("allowed: model, accelerator, tp, length, batch"));
}

TEST_F(CalibrateTest, ValidateLeavesOutInOneWay) {
  for (const char* const two : {"--leave-one-out --leave-half-out", "--leave-half-out --leave-group-out tp",
                                "--leave-one-out --leave-group-out tp"}) {
    const Outcome outcome = run(std::string("validate jumpstart ") + two);
    EXPECT_EQ(outcome.exit, 2) << two;
    EXPECT_THAT(outcome.output, HasSubstr("exclude each other")) << two;
  }
  // A table whose engine has no fit: the message names the option that was given.
  const std::string table = write("runs.csv", few_runs("my server", "some-box x 1"));
  for (const std::string option : {"--leave-one-out", "--leave-half-out"})
    EXPECT_THAT(run("validate " + table + " " + option).output, HasSubstr(option + ": no row of an engine"));
}

// Options for tables of serving runs are rejected by name for other tables.
TEST_F(CalibrateTest, ValidateRefusesOptionsOfOtherComparisons) {
  const std::string study = write("tiny.yaml", kTinyStudy);
  const std::string kernels = write("kernels.csv",
                                    "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
                                    "V,1,NVIDIA H100 80GB HBM3,gemm,made,bfloat16,1,1024,4096,0.01\n");
  for (const std::string& comparison :
       {"--live " + study, study + " --endpoint http://127.0.0.1:1", std::string(kernels)})
    for (const std::string option : {"--study", "--model", "--leave-half-out", "--leave-group-out"}) {
      const Outcome outcome =
          run("validate " + comparison + " " + option + (option == "--leave-half-out" ? "" : " llama-3.1-8b"));
      EXPECT_EQ(outcome.exit, 2) << comparison;
      EXPECT_THAT(outcome.output, HasSubstr(option + " has no effect on ")) << comparison;
    }
  EXPECT_THAT(run("validate --live " + study + " --calibration .").output, HasSubstr("--calibration has no effect"));
}

// The study is for a GPU that this machine does not have, so nothing is measured.
TEST_F(CalibrateTest, LiveValidationIsOfThisMachine) {
  const Outcome other = run("validate --live " + write("tiny.yaml", kTinyStudy));
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.output, HasSubstr("hardware: this-machine"));
  EXPECT_THAT(run("validate jumpstart --live x.yaml").output, HasSubstr("--live replaces the table"));
  const std::string own = write("own.yaml",
                                "model: demo-llama-40m\nhardware: this-machine\nengine: plimsoll-cpu\n"
                                "scheduler: {policy: vllm_v1, kv_blocks: 100}\n"
                                "workload: {load: {burst: {count: 2}}, lengths: {input: 4, output: 3}, requests: 2}\n");
  EXPECT_THAT(run("validate --live " + own + " --device tpu").output, HasSubstr("--device: found 'tpu', allowed: cpu"));
  // The device replaces this project's engine of the study, so that a study for the CPU asks for a GPU.
  const Outcome gpu = run("validate --live " + own + " --device cuda");
  if (gpu.exit == 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(gpu.exit, 3);
  EXPECT_THAT(gpu.output, HasSubstr("CUDA"));
}

}  // namespace
}  // namespace plimsoll::study

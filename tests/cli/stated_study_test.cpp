// SPDX-License-Identifier: Apache-2.0
// Studies stated by options: the same answers as an equivalent file, the same checks, and messages that name the
// option.
#include <gmock/gmock.h>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StatedStudyTest : public CommandTest {
 protected:
  inline static const std::string kHardware = " --hardware p5.4xlarge ";  // one H100
  inline static const std::string kQuestion =
      " --model llama-3.1-8b" + kHardware + "--engine vllm-0.12 --dtype bf16 --input 200 --output 20 --requests 40 ";

  // The CSV, without the notes.
  static std::string csv(const std::string& arguments) {
    const Outcome outcome = run("simulate --quiet --format csv " + arguments, "2>/dev/null");
    EXPECT_EQ(outcome.exit, 0) << arguments;
    return outcome.output;
  }
};

TEST_F(StatedStudyTest, OptionsGiveTheAnswerOfTheFileThatSaysTheSame) {
  const std::string study =
      write("study.yaml",
            "model: llama-3.1-8b\nhardware: p5.4xlarge\nengine: vllm-0.12\ndtype: bf16\n"
            "workload: {load: {poisson: {rate: 4 /s}}, lengths: {input: 200, output: 20}, requests: 40}\n"
            "slo: {p99_ttft: 1 s, p99_tpot: 50 ms}\nsweep: {workload.rate: [4 /s, 8 /s]}\n");
  EXPECT_EQ(csv(kQuestion + "--rate 4,8 --slo p99_ttft=1s,p99_tpot=50ms"), csv(study));
}

TEST_F(StatedStudyTest, ARateIsWrittenInEveryUsualWay) {
  const std::string bare = csv(kQuestion + "--rate 4");
  for (const char* const rate : {"4/s", "'4 /s'", "240/min", "4.0"})
    EXPECT_EQ(csv(kQuestion + "--rate " + rate), bare) << rate;
}

TEST_F(StatedStudyTest, UsersMakeAClosedLoop) {
  const std::string users = csv(kQuestion + "--users 2,4");
  EXPECT_THAT(users, HasSubstr("closed_loop"));
  EXPECT_EQ(csv(kQuestion + "--concurrency 2,4"), users);
}

TEST_F(StatedStudyTest, ATraceIsReplayedOrLendsItsLengths) {
  const std::string trace = write("trace.csv",
                                  "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 "
                                  "18:15:46.0000000,100,10\n2023-11-16 18:15:47.0000000,300,30\n");
  const std::string base = " --model llama-3.1-8b" + kHardware + "--trace " + trace;
  EXPECT_THAT(csv(base), HasSubstr(",trace,"));
  EXPECT_THAT(csv(base + " --rate 4 --requests 20"), HasSubstr(",poisson,"));
  EXPECT_THAT(run("simulate --rate 4 --input 5" + base).output,
              HasSubstr("--trace states the lengths: it excludes --input and --output"));
}

TEST_F(StatedStudyTest, AMistakeNamesItsOption) {
  const auto message = [&](const std::string& arguments) {
    const Outcome outcome = run("simulate" + arguments);
    EXPECT_EQ(outcome.exit, 2) << arguments;
    return outcome.output;
  };
  EXPECT_THAT(message(kQuestion + "--rate 4x"), HasSubstr("plimsoll: --rate 4x: found '4 x'"));
  EXPECT_THAT(message(kQuestion + "--rate 4 --slo p99_tftt=1s"),
              HasSubstr("plimsoll: --slo p99_tftt=1s: unknown key 'p99_tftt'; did you mean 'p99_ttft'?"));
  EXPECT_THAT(message(kQuestion + "--rate 4 --slo p99_ttft"),
              HasSubstr("--slo: found 'p99_ttft', expected limits such as"));
  EXPECT_THAT(message(kQuestion + "--rate 4 --tp 0"), HasSubstr("plimsoll: --tp 0: found 0, expected a whole number"));
  EXPECT_THAT(message(kQuestion + "--rate 4 --users 4"), HasSubstr("--rate and --users exclude each other"));
  EXPECT_THAT(message(" --model nosuch" + kHardware + "--rate 4"),
              HasSubstr("plimsoll: --model nosuch: unknown model"));
}

TEST_F(StatedStudyTest, WhatIsMissingIsSaidInOneMessage) {
  EXPECT_THAT(run("simulate --dtype bf16").output,
              HasSubstr("without a STUDY file, --model, --hardware, --rate (or --users, or --trace) are required"));
  EXPECT_THAT(run("plan").output, HasSubstr("missing STUDY, or --model, --hardware and --rate instead"));
}

// One command line works with every verb; options that do not affect memory change nothing.
TEST_F(StatedStudyTest, MemoryTakesTheOptionsOfTheOtherVerbs) {
  const std::string line = " --quiet --format csv --model llama-3.1-70b --hardware 8xh100 --engine vllm --input 1000";
  const Outcome plain = run("memory" + line);
  const Outcome whole = run("memory" + line + " --rate 4 --output 300 --requests 10 --slo p99_ttft=1s,p99_tpot=50ms");
  EXPECT_EQ(whole.exit, 0) << whole.output;
  EXPECT_EQ(whole.output, plain.output);
}

TEST_F(StatedStudyTest, WhatIsTakenWithoutBeingStatedIsSaid) {
  const std::string text =
      run("simulate --engine vllm --model llama-3.1-8b --rate 4 --hardware p5.48xlarge --requests 10").output;
  EXPECT_THAT(text, HasSubstr("--input not stated: using 1000"));
  EXPECT_THAT(text, HasSubstr("--output not stated: using 300"));
  EXPECT_THAT(text, HasSubstr("--tp not stated: using 8 of 8 GPUs per replica"));
  EXPECT_THAT(text, HasSubstr("engine vllm is vllm-0.12 (the newest with fitted times of "));
}

TEST_F(StatedStudyTest, ADegreeThatIsNotStatedLeavesGpusToTheOtherReplicas) {
  // 28 heads cannot be divided among 8 GPUs: 4 is the largest degree on an instance of 8 that divides them.
  EXPECT_THAT(run("simulate --model qwen2.5-7b --rate 4 --hardware p5.48xlarge --requests 10").output,
              HasSubstr("4 of 8 GPUs per replica"));
  EXPECT_THAT(run("simulate --model llama-3.1-8b --replicas 4 --rate 4 --hardware p5.48xlarge --requests 10").output,
              HasSubstr("2 of 8 GPUs per replica"));
  EXPECT_THAT(run("simulate --model llama-3.1-8b --pp 2 --rate 4 --hardware p5.48xlarge --requests 10").output,
              HasSubstr("8 of 8 GPUs per replica, tp 4"));
}

TEST_F(StatedStudyTest, OptionsReplaceValuesOfAFileAndOfItsSweep) {
  const std::string study =
      write("study.yaml",
            "model: llama-3.1-8b\nhardware: p5.4xlarge\nengine: vllm-0.12\n"
            "workload: {load: {closed_loop: {concurrency: 2}}, lengths: {input: 200, output: 20}, requests: 40}\n"
            "slo: {p90_latency: 1 s}\nsweep: {workload.concurrency: [2, 4], dtype: [fp16, bf16]}\n");
  const std::string table = csv(study + " --rate 5 --dtype fp8");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2) << table;  // the header and one point
  EXPECT_THAT(table, HasSubstr(",fp8,1,1,vllm_v1,poisson,5,"));
}

TEST_F(StatedStudyTest, RequestsIsAFileWithoutANumberAndACountWithOne) {
  EXPECT_THAT(csv(" --model llama-3.1-8b" + kHardware + "--rate 4 --input 100 --output 10 --requests 30"),
              HasSubstr(",30,0,0,"));
  const std::string out = file("out");
  EXPECT_EQ(run("simulate --requests" + kQuestion + "--rate 4 --out " + out).exit, 0);
  EXPECT_TRUE(std::filesystem::exists(out + "/requests.csv"));
}

TEST_F(StatedStudyTest, PlanSearchesTheValuesOfAList) {
  const Outcome outcome = run("plan" + kQuestion + "--rate 4 --tp 1 --replicas 1,2 --slo p99_ttft=10s");
  EXPECT_EQ(outcome.exit, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("2 deployments: 0 are impossible"));
}

TEST_F(StatedStudyTest, MemoryNeedsNoLoad) {
  const Outcome outcome = run("memory --model llama-3.1-8b" + kHardware);
  EXPECT_EQ(outcome.exit, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("KV pool"));
}

TEST_F(StatedStudyTest, InitWritesAStudyWithTheSamePoints) {
  for (const std::string& more : {std::string("--rate 4"), std::string("--users 2,4 --slo p99_ttft=1s"),
                                  std::string("--rate 4,8 --tp 1 --replicas 1,2")}) {
    const std::string study = file("init.yaml");
    std::filesystem::remove(study);
    ASSERT_EQ(run("init --out " + study + kQuestion + more).exit, 0);
    EXPECT_EQ(csv(study), csv(kQuestion + more)) << read_text(study);
  }
}

TEST_F(StatedStudyTest, InitWithoutOptionsWritesAStudyThatRuns) {
  const std::string study = file("init.yaml");
  ASSERT_EQ(run("init --out " + study).exit, 0);
  EXPECT_THAT(read_text(study), HasSubstr("# plimsoll list models"));
  EXPECT_EQ(run("simulate --set workload.requests=20 " + study).exit, 0);
  EXPECT_EQ(run("memory " + study).exit, 0);
  EXPECT_EQ(run("init " + file("other.yaml")).exit, 0);  // the file without --out
  EXPECT_TRUE(std::filesystem::exists(file("other.yaml")));
  EXPECT_THAT(run("init --out " + study).output, HasSubstr("already exists"));  // nothing is overwritten
}

// The degree that init chooses for simulate does not restrict plan.
TEST_F(StatedStudyTest, PlanSearchesTheSameForALineAndItsStudy) {
  const std::string question =
      " --model llama-3.2-1b --hardware 2xh100 --engine vllm-0.12 --input 200 --output 20 --rate 4"
      " --requests 40 --slo p99_ttft=1s";
  const std::string study = file("init.yaml");
  ASSERT_EQ(run("init --out " + study + question).exit, 0);
  EXPECT_THAT(read_text(study), HasSubstr("tp: [1, 2]"));
  const std::string more = " --quiet --set search.replicas=[1,2]";
  const std::string line = run("plan" + question + more).output;
  EXPECT_THAT(line, HasSubstr("tp 1, 1 replica"));  // the fewest GPUs
  EXPECT_EQ(run("plan " + study + more).output, line);
}

TEST_F(StatedStudyTest, AnOptionThatIsNotModelledIsAnswered) {
  for (const char* const option :
       {"--ep 8", "--dp=2", "--enable-lora", "--speculative-config x", "--enable-expert-parallel"})
    EXPECT_THAT(run("simulate" + kQuestion + "--rate 4 " + option).output, HasSubstr("not modelled; effect: "))
        << option;
  EXPECT_THAT(run("simulate" + kQuestion + "--rate 4 --zone 2").output,
              HasSubstr("Any key of a study: --set PATH=VALUE"));
}

TEST_F(StatedStudyTest, AnInstanceHasNoNumber) {
  const Outcome outcome = run("simulate --model llama-3.1-8b --hardware 2xp5.48xlarge --rate 4");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.output, HasSubstr("'p5.48xlarge' is an instance type, not an accelerator"));
}

TEST_F(StatedStudyTest, InitNamesATraceFromWhereTheStudyLies) {
  write("trace.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0000000,100,10\n2023-11-16 "
        "18:15:47.0000000,300,30\n");
  std::filesystem::create_directory(file("studies"));
  const Outcome made = shell("cd " + file("") + " && " + kProgram + " init --model llama-3.1-8b" + kHardware +
                             "--trace trace.csv --out studies/own.yaml 2>&1");
  ASSERT_EQ(made.exit, 0) << made.output;
  EXPECT_THAT(read_text(file("studies/own.yaml")), HasSubstr("\"../trace.csv\""));
  EXPECT_EQ(run("simulate " + file("studies/own.yaml")).exit, 0);
}

TEST_F(StatedStudyTest, TheVersionSaysHowItWasBuilt) {
  const Outcome outcome = run("--version");
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_THAT(
      outcome.output,
      ::testing::MatchesRegex(
          "plimsoll [0-9]+\\.[0-9]+\\.[0-9]+\nbuilt with .*; CUDA: (no|[0-9]+).*\nstudies and catalogue: .*\n"));
}

TEST_F(StatedStudyTest, HelpTakesAVerb) {
  EXPECT_EQ(run("help memory").output, run("memory --help").output);
  EXPECT_EQ(run("help").output, run("--help").output);
}

}  // namespace
}  // namespace plimsoll::study

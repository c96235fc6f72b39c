// SPDX-License-Identifier: Apache-2.0
// plimsoll plan, run as a user does.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PlanCommandTest : public CommandTest {
 protected:
  // Llama 2 7B on one or two GPUs of a p4d; a run takes milliseconds.
  [[nodiscard]] std::string study() const {
    return write("plan.yaml",
                 "study: small\nmodel: llama-2-7b\nhardware: ml.p4d.24xlarge\nengine: vllm-0.6\n"
                 "workload:\n  load: {poisson: {rate: 10 /s}}\n  lengths: {input: 64, output: 16}\n  requests: 200\n"
                 "slo: {p90_latency: 2 s}\nsearch: {instances: [ml.g5.2xlarge, ml.p4d.24xlarge], tp: [1, 2], replicas: "
                 "[1, 2, 4], objective: cost}\n");
  }
  static std::vector<nlohmann::json> lines(const std::string& text) {
    std::vector<nlohmann::json> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
};

TEST_F(PlanCommandTest, TheAnswerIsPrintedAndItsFilesWritten) {
  const Outcome plan = run("plan " + study() + " --out " + file("out"));
  ASSERT_EQ(plan.exit, 0) << plan.output;
  for (const char* const text : {"Answer: ", "carries ", "knees ", "If an assumption is 10 % off",
                                 "why it does not "
                                 "win",
                                 "vllm serve meta-llama/Llama-2-7b-hf"}) {
    EXPECT_THAT(plan.output, HasSubstr(text));
  }
  for (const char* const name : {"ranking.csv", "plan.json", "curve.csv", "winner.yaml", "vllm.sh",
                                 "serving.properties", "study.yaml", "results.sqlite"}) {
    EXPECT_TRUE(std::filesystem::exists(file(std::string("out/") + name))) << name;
  }
  const auto json = nlohmann::json::parse(read_text(file("out/plan.json")));
  EXPECT_EQ(json.at(0).at("ranking").size(), 12U);
  EXPECT_EQ(json.at(0).at("winner").at("deployment"), json.at(0).at("ranking").at(0).at("deployment"));
  EXPECT_EQ(json.at(0).at("sensitivity").size(), 6U);
  // The winner is written as a study, and simulating it confirms the result.
  const Outcome again = run("simulate " + file("out/winner.yaml") + " --format json", "2>/dev/null");
  ASSERT_EQ(again.exit, 0) << again.output;
  EXPECT_LE(nlohmann::json::parse(again.output).at(0).at("latency_p90_s").get<double>(), 2);
}

TEST_F(PlanCommandTest, AnImpossibleWishExitsFourAndNamesTheNearest) {
  const Outcome plan = run("plan " + study() + " --set 'slo={p90_latency: 20 ms}'");
  EXPECT_EQ(plan.exit, 4);
  EXPECT_THAT(plan.output, HasSubstr("nothing meets the SLO; nearest: ml."));
  EXPECT_THAT(plan.output, HasSubstr("times the limit of 20 ms"));
}

TEST_F(PlanCommandTest, LimitsThatNothingKeepsNameTheCheapest) {
  const Outcome plan = run("plan " + study() + " --set search.max_usd_per_hour=1");
  EXPECT_EQ(plan.exit, 4);
  EXPECT_THAT(plan.output, HasSubstr("beyond the search's limits; nearest: ml.g5.2xlarge x 1"));
  EXPECT_THAT(plan.output, HasSubstr("USD/h are more than max_usd_per_hour: 1.00"));
}

TEST_F(PlanCommandTest, ASearchOfNothingThatCanExistIsAMistake) {
  const Outcome plan = run("plan " + study() + " --set model=llama-2-70b");
  EXPECT_EQ(plan.exit, 2);
  EXPECT_THAT(plan.output, HasSubstr("no deployment of the search is possible"));
}

TEST_F(PlanCommandTest, LinesForOtherPrograms) {
  const Outcome plan = run("plan " + study() + " --progress jsonl", "2>/dev/null </dev/null");
  ASSERT_EQ(plan.exit, 0);
  std::map<std::string, int> types;
  nlohmann::json answer, first;
  for (const nlohmann::json& line : lines(plan.output)) {
    const std::string type = line.at("type");
    if (++types[type] == 1 && type == "ranking") first = line;
    if (type == "answer") answer = line;
  }
  EXPECT_EQ(types["ranking"], 12);
  EXPECT_EQ(types["answer"], 1);
  EXPECT_EQ(types["done"], 1);
  EXPECT_GE(types["progress"], 1);
  EXPECT_GE(types["point"], 1);
  EXPECT_EQ(first.at("rank"), 1);
  EXPECT_EQ(first.at("question"), 0);
  EXPECT_TRUE(first.at("meets_slo"));
  EXPECT_EQ(answer.at("winner").at("deployment"), first.at("deployment"));
  EXPECT_THAT(answer.at("text").get<std::string>(), HasSubstr("Answer: "));
}

// The second time, every result comes from the store; a larger search reuses the results that it shares with the first.
TEST_F(PlanCommandTest, ItContinuesFromItsStore) {
  const std::string arguments = "plan " + study() + " --out " + file("out") + " --format csv";
  const Outcome first = run(arguments, "2>/dev/null");
  ASSERT_EQ(first.exit, 0);
  const auto size = std::filesystem::file_size(file("out/results.sqlite"));
  const Outcome second = run(arguments, "2>/dev/null");
  EXPECT_EQ(second.output, first.output);
  EXPECT_EQ(std::filesystem::file_size(file("out/results.sqlite")), size);
}

// Ended again and again in the middle (by the signal that a closed pipe sends), the search finishes with the same
// answer as an undisturbed one.
TEST_F(PlanCommandTest, WhatIsEndedIsNotLost) {
  const std::string arguments = "plan " + study() + " --set workload.requests=2000";
  for (const char* const lines : {"3", "5", "8", "12"}) {
    shell(kProgram + " " + arguments + " --out " + file("out") + " --progress jsonl 2>/dev/null </dev/null | head -n " +
          lines + " > /dev/null");
  }
  const Outcome ended = run(arguments + " --out " + file("out") + " --format csv", "2>/dev/null"),
                calm = run(arguments + " --format csv", "2>/dev/null");
  EXPECT_EQ(ended.exit, 0);
  EXPECT_EQ(ended.output, calm.output);
}

TEST_F(PlanCommandTest, AFolderThatCannotBeWrittenIsOneMessage) {
  write("a-file", "");
  const Outcome plan = run("plan " + study() + " --out " + file("a-file/out"));
  EXPECT_EQ(plan.exit, 3);
  EXPECT_EQ(std::count(plan.output.begin(), plan.output.end(), '\n'), 1) << plan.output;
}

TEST_F(PlanCommandTest, JobsDoNotChangeABit) {
  const Outcome one = run("plan " + study() + " --format json --jobs 1"),
                three = run("plan " + study() + " --format json --jobs 3");
  EXPECT_EQ(one.output, three.output);
}

TEST_F(PlanCommandTest, HelpIsEnoughToBegin) {
  const Outcome help = run("plan --help");
  EXPECT_EQ(help.exit, 0);
  for (const char* const text : {"search:", "slo:", "objective:", "configs/studies/plan-jumpstart.yaml", "Exit code 4"})
    EXPECT_THAT(help.output, HasSubstr(text));
}

TEST_F(PlanCommandTest, ASweepAsksAnew) {
  const Outcome plan =
      run("plan " + study() + " --set 'sweep={workload.rate: [2 /s, 40 /s]}' --format csv --out " + file("out"),
          "2>/dev/null");
  ASSERT_EQ(plan.exit, 0) << plan.output;
  EXPECT_THAT(plan.output, HasSubstr("workload.rate,rank,tie"));
  EXPECT_TRUE(std::filesystem::exists(file("out/question-1/winner.yaml")));
}

}  // namespace
}  // namespace plimsoll::study

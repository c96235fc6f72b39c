// SPDX-License-Identifier: Apache-2.0
// The program itself: exit codes, messages and forms of output.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(CommandTest, HelpListsTheVerbs) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.exit, 0);
  for (const char* const verb : {"simulate", "measure", "memory", "forward", "trace", "list", "validate"}) EXPECT_THAT(help.output, HasSubstr(verb));
}

TEST_F(CommandTest, EveryVerbHasHelpWithAnExample) {
  for (const char* const verb : {"simulate", "measure", "memory", "forward", "trace", "list", "validate"}) {
    const Outcome help = run(std::string(verb) + " --help");
    EXPECT_EQ(help.exit, 0);
    EXPECT_THAT(help.output, HasSubstr(std::string("example:\n  plimsoll ") + verb));
  }
}

TEST_F(CommandTest, AnUnknownVerbNamesTheKnownOnes) {
  const Outcome wrong = run("simulat x.yaml");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.output, StartsWith("plimsoll: unknown verb 'simulat', did you mean 'simulate'?"));
}

TEST_F(CommandTest, AnUnknownOptionNamesTheNearest) {
  const Outcome wrong = run("simulate x.yaml --fromat csv");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.output, HasSubstr("unknown option '--fromat'; nearest: --format"));
}

TEST_F(CommandTest, BadInputIsOneLineWithItsPlace) {
  const std::string path = write("bad.yaml", std::string(kTinyStudy) + "sede: 1\n");
  const Outcome wrong = run("simulate " + path);
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.output, StartsWith("plimsoll: " + path + ":8:1: unknown key 'sede'; did you mean 'seed'?"));
  EXPECT_EQ(std::count(wrong.output.begin(), wrong.output.end(), '\n'), 1);
}

TEST_F(CommandTest, CsvOnStandardOutputIsPointsCsv) {
  const std::string path = write("tiny.yaml", kTinyStudy);
  const Outcome done = run("simulate " + path + " --format csv --out " + file("out"));
  EXPECT_EQ(done.exit, 0);
  EXPECT_EQ(done.output, read_text(file("out/points.csv")));
}

TEST_F(CommandTest, JsonIsAnArrayOfObjects) {
  const std::string path = write("tiny.yaml", kTinyStudy);
  const auto points = nlohmann::json::parse(run("simulate " + path + " --format json").output);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0]["requests_completed"], 20);
  EXPECT_EQ(points[0]["source"], "simulated");
}

TEST_F(CommandTest, ProgressLinesEndWithDone) {
  const std::string path = write("tiny.yaml", std::string(kTinyStudy) + "sweep: {seed: [1, 2, 3]}\n");
  const Outcome done = run("simulate " + path + " --progress jsonl < /dev/null");
  EXPECT_EQ(done.exit, 0);
  std::istringstream lines(done.output);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  int points = 0;
  for (const auto& object : objects) {
    EXPECT_EQ(object["v"], 1);
    points += object["type"] == "point" ? 1 : 0;
  }
  EXPECT_EQ(points, 3);
  EXPECT_EQ(objects.back()["type"], "done");
  EXPECT_EQ(objects.back()["exit"], 0);
}

TEST_F(CommandTest, AnErrorIsAlsoAProgressLine) {
  const Outcome wrong = run("simulate nowhere.yaml --progress jsonl", "2>/dev/null");
  EXPECT_EQ(wrong.exit, 2);
  const auto error = nlohmann::json::parse(wrong.output.substr(0, wrong.output.find('\n')));
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["code"], 2);
  EXPECT_EQ(error["file"], "nowhere.yaml");
}

TEST_F(CommandTest, CancelOnStandardInputExits130) {
  const std::string path = write("long.yaml", std::string(kTinyStudy) + "replications: 10000\n");
  const Outcome cancelled = run("simulate " + path + " --set workload.requests=1000000 --progress jsonl < " +
                                write("commands", "cancel\n"));
  EXPECT_EQ(cancelled.exit, 130);
}

TEST_F(CommandTest, ASweepOfNothingPossibleExits2) {
  const std::string path = write("none.yaml", std::string(kSmallStudy) + "sweep: {deployment.tp: [3, 5]}\n");
  const Outcome none = run("simulate " + path + " --format csv");
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.output, HasSubstr("no point of the sweep can exist"));
}

TEST_F(CommandTest, TraceSaysWhatIsWrong) {
  const std::string path = write("bad.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,NaN,44\n");
  const Outcome wrong = run("trace " + path);
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.output, StartsWith(path + ":2:"));
  EXPECT_THAT(wrong.output, HasSubstr("[not-a-number]"));
}

TEST_F(CommandTest, MemoryHasTheColumnsOfTheContract) {
  const std::string path = write("small.yaml", kSmallStudy);
  EXPECT_THAT(run("memory " + path + " --format csv").output,
              StartsWith("max_kv_batch,critical_batch,attention_intensity,weights_bytes,activation_bytes,overhead_bytes,"
                         "kv_bytes,kv_blocks,kv_tokens\n"));
}

TEST_F(CommandTest, ListKnowsEveryKind) {
  for (const char* const kind : {"models", "accelerators", "instances", "engines", "policies", "routers", "formats"}) {
    const Outcome list = run(std::string("list ") + kind);
    EXPECT_EQ(list.exit, 0) << kind;
    EXPECT_FALSE(list.output.empty()) << kind;
  }
  EXPECT_EQ(run("list modls").exit, 2);
}

}  // namespace
}  // namespace plimsoll::study

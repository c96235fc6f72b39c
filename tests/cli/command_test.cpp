// SPDX-License-Identifier: Apache-2.0
// Exit codes, messages and output formats of the program itself.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(CommandTest, HelpListsTheVerbs) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.exit, 0);
  for (const char* const verb : {"simulate", "measure", "memory", "forward", "trace", "list", "validate"})
    EXPECT_THAT(help.output, HasSubstr(verb));
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
  EXPECT_THAT(wrong.output, HasSubstr("unknown option '--fromat'; did you mean '--format'?"));
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
  const Outcome done = run("simulate --quiet " + path + " --format csv --out " + file("out"));
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
  const Outcome cancelled =
      run("simulate " + path + " --set workload.requests=1000000 --progress jsonl < " + write("commands", "cancel\n"));
  EXPECT_EQ(cancelled.exit, 130);
}

TEST_F(CommandTest, ASweepOfNothingPossibleExits2) {
  const std::string path = write("none.yaml", std::string(kSmallStudy) + "sweep: {deployment.tp: [3, 5]}\n");
  const Outcome none = run("simulate " + path + " --format csv");
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.output, HasSubstr("no point of the sweep is possible"));
}

TEST_F(CommandTest, TraceSaysWhatIsWrong) {
  const std::string path =
      write("bad.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,NaN,44\n");
  const Outcome wrong = run("trace " + path);
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.output, StartsWith(path + ":2:"));
  EXPECT_THAT(wrong.output, HasSubstr("[not-a-number]"));
}

TEST_F(CommandTest, MemoryHasTheColumnsOfTheContract) {
  const std::string path = write("small.yaml", kSmallStudy);
  EXPECT_THAT(
      run("memory " + path + " --format csv --quiet").output,
      StartsWith("max_kv_batch,critical_batch,attention_intensity,weights_bytes,activation_bytes,overhead_bytes,"
                 "kv_bytes,kv_blocks,kv_tokens,budget_bytes,longest_tokens,sequences,infeasible\n"));
}

TEST_F(CommandTest, ListKnowsEveryKind) {
  for (const char* const kind : {"models", "accelerators", "instances", "engines", "policies", "routers", "formats"}) {
    const Outcome list = run(std::string("list ") + kind);
    EXPECT_EQ(list.exit, 0) << kind;
    EXPECT_FALSE(list.output.empty()) << kind;
  }
  EXPECT_EQ(run("list modls").exit, 2);
}

// The notes on an engine's fit are the longest texts; that column is wrapped, and in JSON the figures are separate
// members.
TEST_F(CommandTest, ListsFitATerminalAndJsonHasFigures) {
  for (const char* const kind : {"models", "accelerators", "interconnects", "instances", "engines", "policies"}) {
    std::istringstream lines(run(std::string("list ") + kind).output);
    for (std::string line; std::getline(lines, line);) {
      const auto cells = std::count_if(line.begin(), line.end(),
                                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
      EXPECT_LE(cells, 120) << line;
    }
  }
  EXPECT_THAT(run("list engines --format json").output, HasSubstr("\"policy\":\"vllm_v1\",\"calibrated\":true"));
  EXPECT_THAT(run("list instances --format json").output, HasSubstr("\"accelerator\":\"a100-sxm-40gb\",\"count\":8"));
}

TEST_F(CommandTest, AFolderHasAPageWithPicturesAndTheVerbSaysSo) {
  const std::string path = write(
      "small.yaml", std::string(kSmallStudy) + "slo: {p99_tpot: 1 s}\nsweep: {workload.concurrency: [1, 2, 4]}\n");
  const std::string out = file("out");
  EXPECT_THAT(run("simulate " + path + " --out " + out).output, HasSubstr("written to " + out + ": report.html"));
  const std::string page = read_text(out + "/report.html");
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("p99 TPOT"));  // the SLO's own metric, kept as it is
  EXPECT_THAT(page, HasSubstr("Assumptions"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));  // loads nothing from elsewhere
  EXPECT_THAT(run("memory " + path + " --out " + out).output, HasSubstr("memory.csv"));
  EXPECT_THAT(read_text(out + "/report.html"), HasSubstr("KV pool"));
}

TEST_F(CommandTest, TheTableShowsWhatTheSloLimits) {
  const std::string path = write("small.yaml", std::string(kSmallStudy) + "slo: {p99_tpot: 1 s, p90_latency: 100 s}\n");
  const Outcome outcome = run("simulate " + path);
  EXPECT_THAT(outcome.output, HasSubstr("p99 TPOT"));
  EXPECT_EQ(outcome.output.find("p90 latency"), std::string::npos) << "it has a column already";
}

// The curve is drawn on a terminal only: not in a pipe, and not together with CSV.
TEST_F(CommandTest, TheCurveIsDrawnOnATerminalAlone) {
  if (shell("command -v script > /dev/null").exit != 0) GTEST_SKIP() << "no 'script' to give a command a terminal";
  const std::string path = write("small.yaml", std::string(kSmallStudy) + "sweep: {workload.concurrency: [1, 2, 4]}\n");
  const auto on_terminal = [&](const std::string& environment, const std::string& options) {
    return shell(environment + " script -qec 'stty cols 90 rows 40; " + kProgram + " simulate --quiet " + path +
                 options + "' /dev/null < /dev/null")
        .output;
  };
  const std::string drawn = on_terminal("TERM=xterm", "");
  EXPECT_THAT(drawn, HasSubstr("over output tokens/s"));
  EXPECT_THAT(drawn, HasSubstr("\033["));
  EXPECT_THAT(on_terminal("NO_COLOR=1 TERM=xterm", ""), ::testing::AllOf(HasSubstr("●"), Not(HasSubstr("\033["))));
  EXPECT_THAT(on_terminal("TERM=dumb", ""), Not(HasSubstr("●")));
  EXPECT_THAT(on_terminal("TERM=xterm", " --format csv"), Not(HasSubstr("●")));
  EXPECT_THAT(run("simulate " + path).output, Not(HasSubstr("●")));
}

}  // namespace
}  // namespace plimsoll::study

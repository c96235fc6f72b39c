// SPDX-License-Identifier: Apache-2.0
// Hostile and careless use gives one clear line and an exit code, never an abort, a hang or partial results.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

class BadUseTest : public CommandTest {
 protected:
  void expect_one_line(const std::string& arguments, int exit, const std::string& phrase) {
    const Outcome outcome = run("simulate " + arguments);
    EXPECT_EQ(outcome.exit, exit) << arguments << '\n' << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(phrase)) << arguments;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
};

TEST_F(BadUseTest, FilesThatAreNoStudy) {
  const std::string tiny = kTinyStudy;
  expect_one_line("/dev/zero", 2, "larger than 4 MiB");
  expect_one_line("/dev/null", 2, "/dev/null:1:1: the file is empty");
  expect_one_line("/", 2, "is a directory");
  expect_one_line(std::string(5000, 'a'), 2, "no such file");
  expect_one_line(write("bomb.yaml", "a: &a [x, x]\nb: [*a, *a]\n"), 2, ":1:4: anchors");
  expect_one_line(write("deep.yaml", "study: " + std::string(100000, '[')), 2, "nested deeper");
  expect_one_line(write("tab.yaml", "study: t\n\tseed: 1\n"), 2, ":2:1: ");
  expect_one_line(write("latin.yaml", "study: caf\xe9\n" + tiny), 2, ":1:11: byte 0xe9");
  expect_one_line(write("nul.yaml", tiny + std::string(1, '\0')), 2, "byte 0x00");
  expect_one_line(write("twice.yaml", tiny + "study: again\n"), 2, ":8:1: key 'study' occurs twice");
  expect_one_line(write("documents.yaml", tiny + "---\n" + tiny), 2, "a second YAML document");
}

TEST_F(BadUseTest, WindowsFilesAreRead) {
  std::string text = "\xef\xbb\xbf";
  for (const char c : std::string(kTinyStudy)) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(run("simulate " + write("windows.yaml", text)).exit, 0);
}

TEST_F(BadUseTest, MessagesKeepToTheirLine) {
  expect_one_line(write("escape.yaml", std::string(kTinyStudy) + "\"a\\e[31mb\\nc\": 1\n"), 2,
                  "unknown key 'a\\x1b[31mb\\x0ac'");
}

TEST_F(BadUseTest, OptionsThatAreNone) {
  const std::string tiny = write("tiny.yaml", kTinyStudy);
  expect_one_line(tiny + " --set seed", 2, "path=value");
  expect_one_line(tiny + " --set a.b=1", 2, "--set a.b=1: unknown key 'a'");
  expect_one_line(tiny + " --set 'deployment.tp=[1,2]'", 2, "a list of 2");
  expect_one_line(tiny + " --jobs 0", 2, "from 1 to 1024");
  expect_one_line(tiny + " --seed 18446744073709551615", 2, "from 0 to 9007199254740991");
  expect_one_line(tiny + " --decisions", 2, "--out DIR");
}

TEST_F(BadUseTest, FoldersThatCannotBeWritten) {
  const std::string tiny = write("tiny.yaml", kTinyStudy);
  expect_one_line(tiny + " --out " + tiny, 2, "is a file, not a folder");
  expect_one_line(tiny + " --out " + std::string(300, 'a'), 3, "File name too long");
  std::filesystem::create_directories(file("out/points.csv"));
  expect_one_line(tiny + " --out " + file("out"), 3, "Is a directory");
}

TEST_F(BadUseTest, AFullStandardOutputIsNoSuccess) {
  const Outcome full = run("simulate " + write("tiny.yaml", kTinyStudy) + " --format csv", "2>&1 >/dev/full");
  EXPECT_EQ(full.exit, 3);
  EXPECT_EQ(full.output, "plimsoll: cannot write to standard output\n");
}

// The queue grows as long as the run lasts, so the memory that it needs is not known in advance.
TEST_F(BadUseTest, OutOfMemoryIsAMessage) {
  const std::string path =
      write("queue.yaml",
            "engine: {constant: {prefill: 0 s, decode: 1 s}}\nworkload:\n"
            "  load: {poisson: {rate: 1000000 /s}}\n  lengths: {input: 1, output: 1}\n  requests: 10000000\n");
  const std::string command = "ulimit -v 400000; " + kProgram + " simulate " + path + " 2>&1";
  if (std::string(PLIMSOLL_BINARY_DIR).find("asan") != std::string::npos)
    GTEST_SKIP() << "sanitizers need address space";
  const Outcome outcome = shell(command);
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_THAT(outcome.output, HasSubstr("out of memory"));
}

TEST_F(BadUseTest, ABurstBeyondAllMemoryIsRefusedBefore) {
  const std::string path = write("burst.yaml",
                                 "engine: {constant: {prefill: 0 s, decode: 1 s}}\nworkload:\n"
                                 "  load: {burst: {count: 10000000}}\n  lengths: {input: 1, output: 1}\n");
  if (std::string(PLIMSOLL_BINARY_DIR).find("asan") != std::string::npos)
    GTEST_SKIP() << "sanitizers need address space";
  const Outcome outcome = shell("ulimit -v 400000; " + kProgram + " simulate " + path + " 2>&1");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.output, HasSubstr(path + ":3:3: 10000000 requests at once take about "));
}

// One accelerator of the sweep does not support the type: its row has a reason. A sweep with only such rows is refused.
TEST_F(BadUseTest, AnAcceleratorWithoutTheTypeIsARow) {
  const std::string head =
      "model: opt-125m\ndtype: bf16\nhardware: {accelerator: a100-sxm-80gb, count: 1}\nengine: ideal\n"
      "workload: {load: {burst: {count: 2}}, lengths: {input: 8, output: 8}}\n";
  const Outcome one = run(
      "simulate " + write("one.yaml", head + "sweep: {hardware.accelerator: [a100-sxm-80gb, t4]}\n") + " --format csv");
  EXPECT_EQ(one.exit, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("1 of 2 points are impossible: accelerator t4 has no matrix multiplication in "
                                    "bf16"));
  const std::string none = write("none.yaml", head + "sweep: {hardware.accelerator: [t4, v100-pcie-16gb]}\n");
  const Outcome refused = run("simulate " + none);
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.output,
              HasSubstr(none + ":2:8: no point of the sweep is possible: accelerator t4 has no matrix multiplication"));
}

// Each value is valid with the first value of the other key, but one of the four pairs is contradictory.
TEST_F(BadUseTest, ValuesThatContradictEachOtherAreARow) {
  const std::string path =
      write("pairs.yaml", std::string(kTinyStudy) +
                              "deployment: {autoscaling: {target: 1, start_up: 1 s, max: 4}}\n"
                              "sweep: {deployment.autoscaling.min: [1, 4], deployment.autoscaling.max: [4, 2]}\n");
  const Outcome outcome = run("simulate " + path + " --format csv");
  EXPECT_EQ(outcome.exit, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("1 of 4 points are impossible: found max: 2 below min: 4"));
  EXPECT_THAT(outcome.output, HasSubstr("\n4,2,simulated,,,,,,,,,"));
}

TEST_F(BadUseTest, ARunThatMeasuresNothingSaysSo) {
  const std::string path = write("warm.yaml", std::string(kTinyStudy) + "  warmup: 1000 s\n");
  const Outcome outcome = run("simulate " + path);
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_THAT(outcome.output, HasSubstr("measured no request"));
}

// Clients that are always refused pause between attempts, so there are thousands of events and not millions.
TEST_F(BadUseTest, AServiceThatRefusesEverybodyEnds) {
  for (const char* const limit : {"max_total=4", "max_concurrent=1", "queue_limit=1"}) {
    const Outcome outcome = run("simulate " + write("small.yaml", kSmallStudy) +
                                " --set workload.requests=100000 --set "
                                "workload.concurrency=512 --format csv --set scheduler." +
                                limit);
    EXPECT_EQ(outcome.exit, 0) << limit;
  }
}

// For every policy, with too few KV blocks, shared prefixes, time-outs and retries, leaps equal their steps.
TEST_F(BadUseTest, LeapsEqualStepsForEveryPolicyUnderPressure) {
  const std::string path =
      write("pressure.yaml", std::string(kSmallStudy) +
                                 "  prefix: {groups: 3, tokens: 16}\n"
                                 "limits: {timeout: 700 ms, cancel_on_timeout: true, retries: 1}\n"
                                 "sweep: {scheduler.policy: [none, static, dynamic, rolling, "
                                 "orca, tgi, vllm_v0, vllm_v1, sarathi, trtllm, sglang, llama_cpp]}\n");
  const std::string arguments =
      "simulate " + path +
      " --format csv --set workload.concurrency=24 --set workload.requests=100 "
      "--set workload.lengths.output=40 --set scheduler.kv_blocks=14 --set scheduler.prefix_caching=true --quiet"
      " --set deployment.replicas=2 --set deployment.router=least_kv";
  const Outcome leaping = run(arguments + " --out " + file("leaps") + " --decisions");
  const Outcome stepping = run(arguments + " --stepwise --out " + file("steps") + " --decisions");
  EXPECT_EQ(leaping.exit, 0) << leaping.output;
  EXPECT_EQ(stepping.exit, 0) << stepping.output;
  for (int point = 0; point < 11; ++point) {
    for (int replica = 0; replica < 2; ++replica) {
      const std::string name = "/decisions-" + std::to_string(point) + "-r" + std::to_string(replica) + ".txt";
      EXPECT_EQ(read_text(file("leaps") + name), read_text(file("steps") + name)) << name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::study

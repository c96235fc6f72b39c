// SPDX-License-Identifier: Apache-2.0
// mpirun -n N plimsoll: prints the bytes of one process, even if a rank is killed; one model in several processes.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

class RanksTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    if (shell("command -v mpirun > /dev/null").exit != 0) GTEST_SKIP() << "no mpirun: apt install openmpi-bin";
    if (!std::filesystem::exists(std::string(PLIMSOLL_BINARY_DIR) + "/libplimsoll_mpi.so"))
      GTEST_SKIP() << "built without OpenMPI";
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_plm", "isolated", 1);  // one host: no ssh
    ::setenv("TMPDIR", file("").c_str(), 1);
    // The machine's MPI is not under test, and it does not free all its memory.
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  }
  void TearDown() override { ::unsetenv("TMPDIR"); }  // the folder is removed with the test
  [[nodiscard]] static std::string mpirun(const std::string& options = "") {
    return "mpirun -n 3 --oversubscribe --bind-to none " + options + " " + kProgram + " ";
  }
  [[nodiscard]] std::string sweep(int points, int requests) const {
    std::string seeds;
    for (int seed = 0; seed < points; ++seed) seeds += (seed > 0 ? ", " : "") + std::to_string(seed);
    return write("sweep.yaml", std::string(kSmallStudy) + "sweep: {seed: [" + seeds + "]}\n") +
           " --set workload.requests=" + std::to_string(requests) +
           " --set 'workload.load={poisson: {rate: 20 /s}}' --format csv";
  }
  // Returns the process of a rank, found by its environment.
  static pid_t process_of_rank(int rank, const std::string& study) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string environment = read_text(entry.path().string() + "/environ"),
                        command = read_text(entry.path().string() + "/cmdline");
      const bool ours = command.find(study) != std::string::npos && command.find("mpirun") == std::string::npos;
      if (ours && environment.find("OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0') != std::string::npos)
        return static_cast<pid_t>(std::stol(name));
    }
    return 0;
  }
};

TEST_F(RanksTest, ASweepHasTheBytesOfOneProcess) {
  const std::string arguments = "simulate " + sweep(30, 300);
  const Outcome alone = run(arguments + " --jobs 1", "2>/dev/null"),
                spread = shell(mpirun() + arguments + " 2> " + file("notes"));
  EXPECT_EQ(spread.exit, 0) << read_text(file("notes"));
  EXPECT_EQ(spread.output, alone.output);
  EXPECT_THAT(read_text(file("notes")), HasSubstr("done by the other 2 ranks"));
}

TEST_F(RanksTest, AnAnswerHasTheBytesOfOneProcess) {
  const std::string plan =
      "plan " +
      write("plan.yaml",
            std::string(kSmallStudy) +
                "slo: {p90_latency: 2 s}\nsearch: {tp: [1, 2, 4], replicas: [1, 2], objective: capacity}\n") +
      " --set 'workload.load={poisson: {rate: 20 /s}}' --format json";
  const Outcome alone = run(plan + " --jobs 1", "2>/dev/null"),
                spread = shell(mpirun() + plan + " 2> " + file("notes"));
  EXPECT_EQ(alone.exit, 0);
  EXPECT_EQ(spread.exit, 0) << read_text(file("notes"));
  EXPECT_EQ(spread.output, alone.output);
}

TEST_F(RanksTest, ARankThatIsKilledLosesNoPoint) {
  const std::string arguments = "simulate " + sweep(200, 2000);
  const Outcome alone = run(arguments + " --jobs 1", "2>/dev/null");
  Outcome spread;
  std::atomic<bool> done{false};
  pid_t victim = 0;
  {
    const std::jthread running([&] {
      spread = shell(mpirun("--enable-recovery") + arguments + " --out " + file("out") + " 2> " + file("notes"));
      done = true;
    });
    // Work has begun once the store exists.
    while (!done && !std::filesystem::exists(file("out/results.sqlite"))) std::this_thread::yield();
    while (!done && victim == 0) victim = process_of_rank(1, file("sweep.yaml"));
    if (victim != 0) ::kill(victim, SIGKILL);
  }
  EXPECT_NE(victim, 0) << "the run was over before a rank could be killed";
  EXPECT_EQ(spread.output, alone.output) << read_text(file("notes"));
}

TEST_F(RanksTest, AMistakeIsOneMessage) {
  const Outcome spread = shell(mpirun() + "simulate " + write("bad.yaml", "model: lama\n") + " 2>&1");
  EXPECT_NE(spread.exit, 0);
  const std::size_t first = spread.output.find("plimsoll: ");
  ASSERT_NE(first, std::string::npos) << spread.output;
  EXPECT_EQ(spread.output.find("plimsoll: ", first + 1), std::string::npos) << spread.output;
}

// Three calibrations at the same time would disturb each other.
TEST_F(RanksTest, WhatOneProcessMeasuresIsRefusedOnce) {
  const Outcome spread = shell(mpirun() + "calibrate 2>&1");
  EXPECT_NE(spread.exit, 0);
  const std::size_t first = spread.output.find("mpirun started 3 ranks, but ");
  ASSERT_NE(first, std::string::npos) << spread.output;
  EXPECT_EQ(spread.output.find("mpirun started", first + 1), std::string::npos) << spread.output;
}

// ---- measure: one tensor-parallel group in several processes ------------------------------------------------------

class GroupRanksTest : public RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    if (IsSkipped()) return;
    write("config.json", R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 176, "vocab_size": 97, "max_position_embeddings": 512})");
  }
  [[nodiscard]] std::string measure(const std::string& name, const std::string& load) const {
    return " measure " +
           write(
               name,
               "model: ./config.json\ndtype: fp32\nhardware: this-machine\nengine: plimsoll-cpu\ndeployment: {tp: 4}\n"
               "scheduler: {policy: vllm_v1, kv_blocks: 6, max_running: 4}\nworkload:\n  load: " +
                   load + "\n");
  }
  [[nodiscard]] std::string endless() const {
    return measure("endless.yaml",
                   "{closed_loop: {concurrency: 2}}\n  lengths: {input: 20, output: 8}\n  requests: 10000000");
  }
  [[nodiscard]] static std::string processes(int count) {
    return "mpirun -n " + std::to_string(count) + " --oversubscribe --bind-to none " + kProgram;
  }
  // Runs the endless study until rank 1 has used the processor for `ticks` hundredths of a second, kills a rank, and
  // returns the outcome of the run.
  Outcome kill_rank(int rank, long ticks, const std::string& outputs = "--requests") {
    Outcome outcome;
    std::atomic<bool> done{false};
    {
      const std::jthread running([&] {
        outcome =
            shell(processes(2) + endless() + " " + outputs + " --out " + file("out") + " > " + file("said") + " 2>&1");
        done = true;
      });
      while (!done && cpu_ticks(process_of_rank(1, file("endless.yaml"))) < ticks)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (const pid_t victim = process_of_rank(rank, file("endless.yaml")); victim != 0)
        ::kill(victim, SIGKILL);
      else
        ADD_FAILURE() << "the run was over before a rank could be killed";
    }
    outcome.output = read_text(file("said"));
    return outcome;
  }
  // Returns user and system time together, in hundredths of a second; 0 if the process does not exist.
  static long cpu_ticks(pid_t process) {
    const std::string stat = read_text("/proc/" + std::to_string(process) + "/stat");
    std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;  // state to cmajflt: proc(5)
    long user = 0, system = 0;
    fields >> user >> system;
    return user + system;
  }
  // Returns whether the process ends within a few seconds.
  [[nodiscard]] bool is_gone(int rank) const {
    for (int i = 0; i < 100 && process_of_rank(rank, file("endless.yaml")) != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return process_of_rank(rank, file("endless.yaml")) == 0;
  }
};

TEST_F(GroupRanksTest, AScriptIsDecidedAsInOneProcess) {
  const std::string arguments =
      measure("script.yaml", "{script: \"A:20+20@1 B:30+10@1 C:25+25@2 D:3+40@3\"}") + " --decisions --out ";
  ASSERT_EQ(shell(kProgram + arguments + file("alone") + " 2>/dev/null").exit, 0);
  for (const int count : {2, 4}) {
    const std::string out = file("of" + std::to_string(count));
    const Outcome spread = shell(processes(count) + arguments + out + " 2>&1");
    ASSERT_EQ(spread.exit, 0) << spread.output;
    EXPECT_THAT(spread.output, HasSubstr("4 ranks in " + std::to_string(count) + " processes"));
    EXPECT_EQ(read_text(out + "/decisions.txt"), read_text(file("alone/decisions.txt")));
  }
  EXPECT_THAT(read_text(file("alone/decisions.txt")), HasSubstr("P[A:20"));
}

// Blocks are swapped out, which followers copy too; replicas run at the same time; and there are two points with
// different groups.
TEST_F(GroupRanksTest, ReplicasSwapsAndSweepsSpanTheProcesses) {
  const std::string live =
      measure("live.yaml",
              "{closed_loop: {concurrency: 6}}\n  lengths: {input: 20, output: 30}\n  requests: 12\n"
              "sweep: {deployment.tp: [2, 4]}\n") +
      " --set deployment.replicas=2 --format csv";
  const Outcome spread = shell(processes(2) + live + " 2> " + file("notes"));
  ASSERT_EQ(spread.exit, 0) << read_text(file("notes"));
  EXPECT_EQ(std::count(spread.output.begin(), spread.output.end(), '\n'), 3) << spread.output;  // a heading, two points
  const Outcome swaps = shell(
      processes(2) + measure("swap.yaml", "{script: \"A:20+40@1 B:30+30@1 C:25+25@2 D:3+40@3\"}") +
      " --set scheduler.policy=vllm_v0 --set scheduler.preemption=swap --decisions --out " + file("swaps") + " 2>&1");
  ASSERT_EQ(swaps.exit, 0) << swaps.output;
  const std::string decisions = read_text(file("swaps/decisions.txt"));
  EXPECT_THAT(decisions, HasSubstr(" !B"));                // preempted, and never computed again:
  EXPECT_EQ(decisions.find("B:"), decisions.rfind("B:"));  // it came back from the host
}

TEST_F(GroupRanksTest, EveryRankIsInOpsCsv) {
  const std::string arguments = measure("script.yaml", "{script: \"A:20+4@1\"}") + " --trace-ops --out ";
  const Outcome spread = shell(processes(2) + arguments + file("ops") + " 2>&1");
  ASSERT_EQ(spread.exit, 0) << spread.output;
  for (const std::string rank : {"0", "1", "2", "3"})
    EXPECT_THAT(read_text(file("ops/ops.csv")), HasSubstr("\n1," + rank + ",0,qkv,20,"));
}

TEST_F(GroupRanksTest, ProcessesThatDoNotDivideTheRanksAreRefusedOnce) {
  const Outcome spread = shell(processes(3) + measure("script.yaml", "{script: \"A:20+4@1\"}") + " 2>&1");
  EXPECT_EQ(spread.exit, 2) << spread.output;
  const std::size_t first = spread.output.find("mpirun started 3 processes for tp 4: ");
  ASSERT_NE(first, std::string::npos) << spread.output;
  EXPECT_EQ(spread.output.find("plimsoll: ", spread.output.find("plimsoll: ") + 1), std::string::npos) << spread.output;
}

// Simulates a host where the file was edited: both hosts have a model at that path.
TEST_F(GroupRanksTest, AnotherModelFileIsRefusedWithItsRank) {
  static_cast<void>(measure("script.yaml", "{script: \"A:20+4@1\"}"));
  for (const std::string place : {"here", "there"}) {
    std::filesystem::create_directory(file(place));
    std::filesystem::copy(file("script.yaml"), file(place + "/script.yaml"));
    write(place + "/config.json", read_text(file("config.json")) + (place == "there" ? " " : ""));
  }
  const auto in = [&](const std::string& place) {
    return "-n 1 -wdir " + file(place) + " " + kProgram + " measure script.yaml";
  };
  const Outcome spread = shell("mpirun --oversubscribe --bind-to none " + in("here") + " : " + in("there") + " 2>&1");
  EXPECT_EQ(spread.exit, 2) << spread.output;
  EXPECT_THAT(spread.output, HasSubstr("ranks 2 to 3 on "));
  EXPECT_THAT(spread.output, HasSubstr("config.json differs from the same file on the host of rank 0"));
}

// When a rank is killed, mpirun by default ends the other ranks. With --enable-recovery its exit code is that of the
// first rank that it saw end. In both cases rank 0 prints and stores the same results.
// With traced ops, those of the lost follower are missing; asking for them must not lose the run and the reason.
TEST_F(GroupRanksTest, AFollowerThatIsKilledIsNamedAndWhatWasMeasuredIsKept) {
  for (const std::string outputs : {"--requests", "--requests --trace-ops"}) {
    Outcome spread;
    std::string requests;
    const auto answered = [&] { return std::count(requests.begin(), requests.end(), '\n') > 1; };
    // Usually 0.3 s contain many steps of less than a millisecond. A slow build still loads the model then, and the
    // kill must come later.
    for (long ticks = 30; ticks < 10'000 && !answered(); ticks *= 2) {
      std::filesystem::remove_all(file("out"));
      spread = kill_rank(1, ticks, outputs);
      requests = read_text(file("out/requests.csv"));
      EXPECT_NE(spread.exit, 0);
      EXPECT_TRUE(is_gone(0));
    }
    EXPECT_TRUE(answered()) << requests;
    EXPECT_THAT(spread.output, HasSubstr("plimsoll: ranks 2 to 3 on "));
    EXPECT_THAT(spread.output, HasSubstr(": the process has died"));
  }
}

TEST_F(GroupRanksTest, FollowersGoWithTheLeader) {
  EXPECT_NE(kill_rank(0, 30).exit, 0);
  EXPECT_TRUE(is_gone(1));
}

}  // namespace
}  // namespace plimsoll::study

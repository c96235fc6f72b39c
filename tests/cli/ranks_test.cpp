// SPDX-License-Identifier: Apache-2.0
// mpirun -n N plimsoll: the bytes of one process, also when a rank is killed.
#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
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
    if (!std::filesystem::exists(std::string(PLIMSOLL_BINARY_DIR) + "/libplimsoll_mpi.so")) GTEST_SKIP() << "built without OpenMPI";
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_plm", "isolated", 1);   // one host: no ssh
    ::setenv("TMPDIR", file("").c_str(), 1);
    // The MPI of the machine is not what is tested here, nor does it free what it took.
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  }
  void TearDown() override { ::unsetenv("TMPDIR"); }   // it goes with the test
  [[nodiscard]] static std::string mpirun(const std::string& options = "") { return "mpirun -n 3 --oversubscribe --bind-to none " + options + " " + kProgram + " "; }
  [[nodiscard]] std::string sweep(int points, int requests) const {
    std::string seeds;
    for (int seed = 0; seed < points; ++seed) seeds += (seed > 0 ? ", " : "") + std::to_string(seed);
    return write("sweep.yaml", std::string(kSmallStudy) + "sweep: {seed: [" + seeds + "]}\n") + " --set workload.requests=" + std::to_string(requests) +
           " --set 'workload.load={poisson: {rate: 20 /s}}' --format csv";
  }
  // The process of one rank, found by its environment.
  static pid_t process_of_rank(int rank, const std::string& study) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string environment = read_text(entry.path().string() + "/environ"), command = read_text(entry.path().string() + "/cmdline");
      const bool ours = command.find(study) != std::string::npos && command.find("mpirun") == std::string::npos;
      if (ours && environment.find("OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0') != std::string::npos) return static_cast<pid_t>(std::stol(name));
    }
    return 0;
  }
};

TEST_F(RanksTest, ASweepHasTheBytesOfOneProcess) {
  const std::string arguments = "simulate " + sweep(30, 300);
  const Outcome alone = run(arguments + " --jobs 1", "2>/dev/null"), spread = shell(mpirun() + arguments + " 2> " + file("notes"));
  EXPECT_EQ(spread.exit, 0) << read_text(file("notes"));
  EXPECT_EQ(spread.output, alone.output);
  EXPECT_THAT(read_text(file("notes")), HasSubstr("done by the other 2 ranks"));
}

TEST_F(RanksTest, AnAnswerHasTheBytesOfOneProcess) {
  const std::string plan = "plan " + write("plan.yaml", std::string(kSmallStudy) + "slo: {p90_latency: 2 s}\nsearch: {tp: [1, 2, 4], replicas: [1, 2], objective: capacity}\n") +
                           " --set 'workload.load={poisson: {rate: 20 /s}}' --format json";
  const Outcome alone = run(plan + " --jobs 1", "2>/dev/null"), spread = shell(mpirun() + plan + " 2> " + file("notes"));
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
    // Work is under way once the store is there.
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

// Three measurements at once would measure each other.
TEST_F(RanksTest, WhatOneProcessMeasuresIsRefusedOnce) {
  for (const std::string verb : {"measure none.yaml", "calibrate"}) {
    const Outcome spread = shell(mpirun() + verb + " 2>&1");
    EXPECT_NE(spread.exit, 0);
    const std::size_t first = spread.output.find("mpirun started 3 ranks, but ");
    ASSERT_NE(first, std::string::npos) << spread.output;
    EXPECT_EQ(spread.output.find("mpirun started", first + 1), std::string::npos) << spread.output;
  }
}

}  // namespace
}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// Sweeps that are killed, and output folders that cannot store the results.
#include <gmock/gmock.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <unistd.h>

#include <map>
#include <random>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

class ResumeCommandTest : public CommandTest {
 protected:
  // 60 points of a few milliseconds each.
  [[nodiscard]] std::string sweep() const {
    std::string seeds;
    for (int seed = 0; seed < 60; ++seed) seeds += (seed > 0 ? ", " : "") + std::to_string(seed);
    std::string yaml = std::string(kSmallStudy) + "sweep: {seed: [" + seeds + "]}\n";
    yaml.replace(yaml.find("closed_loop: {concurrency: 4}"), 29, "poisson: {rate: 20 /s}       ");
    return write("sweep.yaml", yaml) + " --set workload.requests=400";
  }

  // Starts a sweep or a search, waits for this many finished points in its progress lines, and kills it.
  void run_and_kill(const std::string& arguments, int points) const {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      const std::string command = "exec " + kProgram + " " + arguments + " --progress jsonl < /dev/null";
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    std::FILE* const lines = ::fdopen(ends[0], "r");
    std::array<char, 8192> line{};
    for (int seen = 0; seen < points && std::fgets(line.data(), line.size(), lines) != nullptr;) {
      seen += std::string_view(line.data()).find("\"type\":\"point\"") != std::string_view::npos ? 1 : 0;
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::fclose(lines);
  }

  // Returns row numbers by key: a point that is stored again gets another row.
  [[nodiscard]] std::map<std::string, std::int64_t> stored() const {
    std::map<std::string, std::int64_t> rows;
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(file("out/results.sqlite").c_str(), &database), SQLITE_OK);
    const auto add = [](void* out, int, char** values, char**) {
      (*static_cast<std::map<std::string, std::int64_t>*>(out))[values[0]] = std::stoll(values[1]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(database, "SELECT hex(key), rowid FROM results", add, &rows, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
    return rows;
  }
};

TEST_F(ResumeCommandTest, KilledTwentyTimesItEndsAsIfUndisturbed) {
  const std::string arguments = sweep() + " --out " + file("out") + " --requests";
  std::mt19937 random(5);
  std::map<std::string, std::int64_t> known;
  for (int kill = 0; kill < 20; ++kill) {
    // Recalled points are reported too, so some kills come after all the known points.
    run_and_kill("simulate " + arguments, static_cast<int>(random() % (known.size() + 5)));
    if (!std::filesystem::exists(file("out/results.sqlite"))) continue;  // killed before it began
    for (const auto& entry : std::filesystem::directory_iterator(file("out"))) {
      const std::string text = read_text(entry.path());
      if (entry.path().filename().string().ends_with(".csv")) {
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 401) << entry.path();
      }
    }
    const auto now = stored();
    for (const auto& [key, row] : known) EXPECT_EQ(now.at(key), row) << "stored twice";
    known = now;
  }
  EXPECT_GE(known.size(), 5U);
  EXPECT_EQ(run("simulate " + arguments).exit, 0);
  const auto all = stored();
  EXPECT_EQ(all.size(), 60U);
  for (const auto& [key, row] : known) EXPECT_EQ(all.at(key), row) << "stored twice";
  EXPECT_EQ(run("simulate " + sweep() + " --out " + file("calm") + " --requests").exit, 0);
  EXPECT_EQ(read_text(file("out/points.csv")), read_text(file("calm/points.csv")));
  EXPECT_EQ(read_text(file("out/requests-59.csv")), read_text(file("calm/requests-59.csv")));
  for (const auto& entry : std::filesystem::directory_iterator(file("out")))
    EXPECT_NE(entry.path().extension(), ".tmp");
}

// A search keeps every simulation. Its answer does not depend on how often it was interrupted.
TEST_F(ResumeCommandTest, ASearchKilledTwentyTimesEndsAsIfUndisturbed) {
  const std::string study =
      write("plan.yaml",
            "study: small\nmodel: llama-2-7b\nhardware: ml.p4d.24xlarge\nengine: vllm-0.6\n"
            "workload:\n  load: {poisson: {rate: 10 /s}}\n  lengths: {input: 64, output: 16}\n  requests: 1000\n"
            "slo: {p90_latency: 2 s}\nsearch: {instances: [ml.g5.2xlarge, ml.p4d.24xlarge], tp: [1, 2], replicas: [1, "
            "2, 4]}\n");
  const std::string arguments = "plan " + study + " --out " + file("out");
  std::mt19937 random(6);
  std::map<std::string, std::int64_t> known;
  for (int kill = 0; kill < 20; ++kill) {
    run_and_kill(arguments, static_cast<int>(random() % (known.size() + 3)));
    if (!std::filesystem::exists(file("out/results.sqlite"))) continue;
    const auto now = stored();
    for (const auto& [key, row] : known) EXPECT_EQ(now.at(key), row) << "stored twice";
    known = now;
  }
  EXPECT_GE(known.size(), 3U);
  ASSERT_EQ(run(arguments).exit, 0);
  const auto all = stored();
  for (const auto& [key, row] : known) EXPECT_EQ(all.at(key), row) << "stored twice";
  ASSERT_EQ(run("plan " + study + " --out " + file("calm")).exit, 0);
  for (const char* const name : {"plan.json", "ranking.csv", "curve.csv", "winner.yaml"}) {
    EXPECT_EQ(read_text(file(std::string("out/") + name)), read_text(file(std::string("calm/") + name))) << name;
  }
}

TEST_F(ResumeCommandTest, ItSaysWhatItFound) {
  const std::string arguments = "simulate " + sweep() + " --out " + file("out");
  EXPECT_THAT(run(arguments).output, ::testing::Not(HasSubstr("were already in")));
  EXPECT_THAT(run(arguments).output,
              HasSubstr("note: 60 of 60 points were already in " + file("out") + "/results.sqlite"));
}

TEST_F(ResumeCommandTest, AStoreInUseIsOneMessage) {
  ASSERT_EQ(run("simulate " + sweep() + " --out " + file("out")).exit, 0);
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file("out/results.sqlite").c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  const Outcome locked = run("simulate " + sweep() + " --out " + file("out"));
  EXPECT_EQ(locked.exit, 3);
  EXPECT_THAT(locked.output, HasSubstr("another run is using it"));
  EXPECT_EQ(std::count(locked.output.begin(), locked.output.end(), '\n'), 1) << locked.output;
  sqlite3_close(database);
}

TEST_F(ResumeCommandTest, ADamagedStoreIsOneMessageAndLeftAlone) {
  std::filesystem::create_directory(file("out"));
  write("out/results.sqlite", "Dear diary");
  const Outcome damaged = run("simulate " + sweep() + " --out " + file("out"));
  EXPECT_EQ(damaged.exit, 3);
  EXPECT_THAT(damaged.output, HasSubstr("move it away to start again"));
  EXPECT_EQ(std::count(damaged.output.begin(), damaged.output.end(), '\n'), 1) << damaged.output;
  EXPECT_EQ(read_text(file("out/results.sqlite")), "Dear diary");
}

/// A disk that is full after `bytes`; only root can create one.
class SmallDisk {
 public:
  SmallDisk(std::string folder, const std::string& bytes) : folder_(std::move(folder)) {
    std::filesystem::create_directory(folder_);
    mounted_ = ::mount("none", folder_.c_str(), "tmpfs", 0, ("size=" + bytes).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount(folder_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  void grow() const { ::mount("none", folder_.c_str(), "tmpfs", MS_REMOUNT, "size=100m"); }
  void lock() const { ::mount("none", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr); }

 private:
  std::string folder_;
  bool mounted_ = false;
};

TEST_F(ResumeCommandTest, AFullDiskLosesNothingThatWasStored) {
  const SmallDisk disk(file("disk"), "200k");
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a small disk";
  const std::string arguments = "simulate " + sweep() + " --requests --jobs 1 --out " + file("disk/out");
  const Outcome full = run(arguments);
  EXPECT_EQ(full.exit, 3);
  EXPECT_EQ(std::count(full.output.begin(), full.output.end(), '\n'), 1) << full.output;
  disk.grow();
  const Outcome rest = run(arguments);
  EXPECT_EQ(rest.exit, 0) << rest.output;
  EXPECT_THAT(rest.output, HasSubstr(" of 60 points were already in "));
  EXPECT_EQ(run("simulate " + sweep() + " --out " + file("calm")).exit, 0);
  EXPECT_EQ(read_text(file("disk/out/points.csv")), read_text(file("calm/points.csv")));
}

TEST_F(ResumeCommandTest, AFolderThatCannotBeWrittenIsOneMessage) {
  const SmallDisk disk(file("disk"), "10m");
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a small disk";
  ASSERT_EQ(run("simulate " + sweep() + " --out " + file("disk/out")).exit, 0);
  disk.lock();
  for (const char* const folder : {"disk/out", "disk/new"}) {
    const Outcome outcome = run("simulate " + sweep() + " --out " + file(folder));
    EXPECT_EQ(outcome.exit, 3);
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
}

}  // namespace
}  // namespace plimsoll::study

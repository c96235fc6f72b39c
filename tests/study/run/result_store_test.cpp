// SPDX-License-Identifier: Apache-2.0
#include "study/run/result_store.h"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "model/error.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

class ResultStoreTest : public StudyFolder {
 protected:
  [[nodiscard]] std::string store_file() const { return file("results.sqlite"); }

  static std::string problem_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "no DeviceError";
  }
  [[nodiscard]] std::string problem_of_opening() const {
    return problem_of([&] { ResultStore store(store_file()); });
  }
  void sql(const char* text) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(store_file().c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, text, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
};

TEST_F(ResultStoreTest, FindsWhatWasPut) {
  const std::string text("a\0b\n", 4);
  {
    ResultStore store(store_file());
    EXPECT_EQ(store.find(digest_of("a")), std::nullopt);
    store.put(digest_of("a"), text);
    store.put(digest_of("b"), "old");
    store.put(digest_of("b"), "new");
    EXPECT_EQ(store.find(digest_of("a")), text);
  }
  ResultStore store(store_file());
  EXPECT_EQ(store.find(digest_of("a")), text);
  EXPECT_EQ(store.find(digest_of("b")), "new");
}

// The child exits without running destructors, like a killed process.
TEST_F(ResultStoreTest, AKilledProcessLosesNothingThatWasCommitted) {
  const pid_t child = ::fork();
  if (child == 0) {
    ResultStore store(store_file());
    for (int i = 0; i < 100; ++i) store.put(digest_of(std::to_string(i)), "x");
    store.commit();
    store.put(digest_of("open transaction"), "x");
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ResultStore store(store_file());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(store.find(digest_of(std::to_string(i)))) << i;
}

TEST_F(ResultStoreTest, OneAtATimeOwnsIt) {
  const ResultStore store(store_file());
  EXPECT_THAT(problem_of_opening(), HasSubstr("another run is using it"));
}

TEST_F(ResultStoreTest, AFileThatIsNoStoreIsLeftAlone) {
  write("results.sqlite", "Dear diary, " + std::string(5000, '.'));
  EXPECT_THAT(problem_of_opening(), HasSubstr("damaged or not a store of results: move it away"));
  EXPECT_THAT(read_text(store_file()), ::testing::StartsWith("Dear diary"));
}

TEST_F(ResultStoreTest, ADatabaseOfSomethingElseIsLeftAlone) {
  sql("CREATE TABLE accounts (name TEXT); INSERT INTO accounts VALUES ('mine')");
  EXPECT_THAT(problem_of_opening(), HasSubstr("another program's database"));
}

TEST_F(ResultStoreTest, AnotherVersionIsRefused) {
  { const ResultStore store(store_file()); }
  sql("PRAGMA user_version = 99");
  EXPECT_THAT(problem_of_opening(), HasSubstr("another version"));
}

TEST_F(ResultStoreTest, ADamagedResultIsNoResult) {
  {
    ResultStore store(store_file());
    store.put(digest_of("a"), "1234");
  }
  sql("UPDATE results SET text = '1235'");
  ResultStore store(store_file());
  EXPECT_THAT(problem_of([&] { static_cast<void>(store.find(digest_of("a"))); }), HasSubstr("damaged"));
}

TEST_F(ResultStoreTest, ACutFileIsDamaged) {
  {
    ResultStore store(store_file());
    for (int i = 0; i < 200; ++i) store.put(digest_of(std::to_string(i)), std::string(1000, 'x'));
  }
  std::filesystem::resize_file(store_file(), std::filesystem::file_size(store_file()) / 2);
  EXPECT_THAT(problem_of([&] {
                ResultStore store(store_file());
                for (int i = 0; i < 200; ++i) static_cast<void>(store.find(digest_of(std::to_string(i))));
              }),
              HasSubstr("damaged"));
}

TEST_F(ResultStoreTest, AFolderThatIsNotThereIsSaid) {
  EXPECT_THAT(problem_of([&] { const ResultStore store(file("nowhere/results.sqlite")); }),
              HasSubstr("it cannot be written"));
}

TEST(Digests, ChangeWithWhatTheyAreOf) {
  // RFC 4122 names SHA-1. The value fixes byte order and namespace: a change would lose every stored result.
  EXPECT_EQ(hex(digest_of("")), "e129f27c51035c5c844bcdf0a15e160d");
  EXPECT_NE(digest_of("a"), digest_of("b"));
  EXPECT_EQ(program_digest(), program_digest());
  EXPECT_NE(program_digest(), digest_of(""));
}

class FolderDigestTest : public StudyFolder {};

TEST_F(FolderDigestTest, SeesContentsAndNames) {
  std::filesystem::create_directory(file("in"));
  write("in/a", "1");
  write("in/b", "2");
  const Digest before = digest_of_folder(file("in"));
  EXPECT_EQ(digest_of_folder(file("in")), before);
  write("in/a", "3");
  EXPECT_NE(digest_of_folder(file("in")), before);
  write("in/a", "1");
  EXPECT_EQ(digest_of_folder(file("in")), before);
  std::filesystem::rename(file("in/a"), file("in/c"));
  EXPECT_NE(digest_of_folder(file("in")), before);
}

// A file that must not grow simulates a full disk. SQLite then ends the transaction, and a later call fails only
// because of that ("SQL logic error").
TEST_F(ResultStoreTest, TheFirstFailureIsTold) {
  const std::string text(200'000, 'x');
  const auto key = [](std::uint8_t i) {
    Digest digest{};
    digest[0] = i;
    return digest;
  };
  ResultStore store(store_file());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::vector<std::string> problems;
  for (int attempt = 0; attempt < 3; ++attempt) {
    problems.push_back(problem_of([&] {
      for (std::uint8_t k = 0; k < 50; ++k) store.put(key(k), text);
      store.commit();
    }));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(problems[0], HasSubstr("cannot use"));
  EXPECT_THAT(problems[0], ::testing::Not(HasSubstr("SQL logic error")));
  EXPECT_EQ(problems[1], problems[0]);
  EXPECT_EQ(problems[2], problems[0]);
}

}  // namespace
}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// Runs the commands of every page as written and in order, in a folder like a fresh checkout. Compares the output with
// the page. PLIMSOLL_DOCS_UPDATE=1 writes the output into the pages instead. Marks above a block state exceptions
// (CONTRIBUTING.md, "Documentation").
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/docs/page.h"
#include "tests/shell.h"

namespace plimsoll::docs {
namespace {

namespace fs = std::filesystem;

const std::string kRoot = PLIMSOLL_SOURCE_DIR;
const std::string kProgram = std::string(PLIMSOLL_BINARY_DIR) + "/plimsoll";

std::vector<std::string> pages() {
  std::vector<std::string> all = {"README.md"};
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot + "/docs")) {
    if (entry.path().extension() == ".md") all.push_back("docs/" + entry.path().filename().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// Links to the files of a checkout, with the program where a build puts it; tests may write there.
class Checkout {
 public:
  explicit Checkout(const std::string& name)
      : path_(fs::temp_directory_path() / ("plimsoll-docs-" + name + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_ / "build/release");
    for (const fs::directory_entry& entry : fs::directory_iterator(kRoot)) {
      const std::string file = entry.path().filename().string();
      if (file == "build" || file == "out" || file == "plimsoll" || file.starts_with('.')) continue;
      fs::create_symlink(entry.path(), path_ / file);
    }
    fs::create_symlink(kProgram, path_ / "plimsoll");
    fs::create_symlink(kProgram, path_ / "build/release/plimsoll");
    ::setenv("XDG_DATA_HOME", (path_ / "data").c_str(), 1);  // no calibration of the user's own
  }
  ~Checkout() { fs::remove_all(path_); }
  Checkout(const Checkout&) = delete;
  Checkout& operator=(const Checkout&) = delete;

  [[nodiscard]] Outcome run(const std::string& command) const {
    return shell("cd '" + path_.string() + "' && { " + command + "\n} 2>&1 </dev/null");
  }
  void write(const std::string& name, const std::vector<std::string>& lines) const {
    std::ofstream file(path_ / name);
    for (const std::string& line : lines) file << line << '\n';
  }

 private:
  fs::path path_;
};

/// The blocks of a page, from top to bottom.
class Reading {
 public:
  explicit Reading(const std::string& page) : page_(page), checkout_(fs::path(page).stem().string()) {}

  void read(const Block& block) {
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, page_ + ":" + std::to_string(block.line));
    for (const std::string& name : block.after("file")) checkout_.write(name, block.lines);
    if (block.language == "sh") run(block);
    if (block.has("output") || !block.after("output").empty()) compare(block);
  }

 private:
  // "skip REASON" skips a whole block; "skip 'TEXT' REASON" skips the commands that contain the text.
  static bool is_skipped(const Block& block, const std::string& command) {
    for (const std::string& rule : block.after("skip")) {
      std::string reason = rule;
      if (rule.starts_with('\'')) {
        const std::size_t end = rule.find('\'', 1);
        if (command.find(rule.substr(1, end - 1)) == std::string::npos) continue;
        reason = rule.substr(end + 1);
      }
      EXPECT_GT(reason.size(), 8U) << "a skip without a reason: " << rule;
      std::cout << "  not run: " << command << " (" << reason << ")\n";
      return true;
    }
    return false;
  }

  void run(const Block& block) {
    const std::vector<std::string> exits = block.after("exit");
    for (const std::string& command : commands_of(block)) {
      if (is_skipped(block, command)) continue;
      last_ = checkout_.run(command);
      ran_[command] = last_;
      EXPECT_EQ(last_.exit, exits.empty() ? 0 : std::stoi(exits.front())) << command << '\n' << last_.output;
    }
  }

  void compare(const Block& block) {
    Outcome outcome = last_;
    for (const std::string& rule : block.after("output")) {
      if (!rule.starts_with("of ")) continue;
      const std::string command = rule.substr(3);
      if (!ran_.contains(command)) ran_[command] = checkout_.run(command);
      outcome = ran_[command];
    }
    if (std::getenv("PLIMSOLL_DOCS_UPDATE") != nullptr)
      replace_block(kRoot + '/' + page_, block, renewed(block.lines, outcome.output));
    const std::string missing = difference(block.lines, outcome.output, block.has("figures vary"));
    EXPECT_EQ(missing, "") << "is not printed there. The command prints:\n" << outcome.output;
  }

  std::string page_;
  Checkout checkout_;
  Outcome last_;
  std::map<std::string, Outcome> ran_;
};

class PageTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PageTest, CommandsRunAndPrintWhatThePageShows) {
  if (!fs::exists(kProgram)) GTEST_SKIP() << "build the target plimsoll_exe first: " << kProgram;
  Reading reading(GetParam());
  for (const Block& block : read_page(kRoot + '/' + GetParam())) reading.read(block);
}

// Verbs and options in the text of a page must exist in the program.
TEST_P(PageTest, CommandsInSentencesNameVerbsAndOptionsThatThereAre) {
  if (!fs::exists(kProgram)) GTEST_SKIP() << "build the target plimsoll_exe first: " << kProgram;
  const Checkout checkout("inline");
  const std::set<std::string> without_help = {"VERB", "--help", "--version", "setup", "gui"};
  std::map<std::string, std::string> helps;
  for (const std::string& command : inline_commands(kRoot + '/' + GetParam())) {
    std::istringstream words(command);
    std::string verb;
    words >> verb;
    if (without_help.contains(verb)) continue;
    if (!helps.contains(verb)) {
      const Outcome help = checkout.run("./plimsoll " + verb + " --help");
      EXPECT_EQ(help.exit, 0) << "`plimsoll " << command << "` in " << GetParam() << '\n' << help.output;
      helps[verb] = help.output;
    }
    for (std::string word; words >> word;) {
      if (!word.starts_with("--")) continue;
      const std::string option = word.substr(0, word.find_first_of("=,;"));
      EXPECT_THAT(helps[verb], ::testing::HasSubstr(option)) << "`plimsoll " << command << "` in " << GetParam();
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<std::string>& page) {
  std::string name = fs::path(page.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Docs, PageTest, ::testing::ValuesIn(pages()), name_of);

// A file that moves takes its place in "Where to find" along.
TEST(ArchitectureTest, NamesFilesThatThereAre) {
  std::ifstream file(kRoot + "/ARCHITECTURE.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex path("`([a-z_]+/[a-z0-9_/]+\\.[a-z]+)`");
  std::size_t count = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), path), end; match != end; ++match, ++count)
    EXPECT_TRUE(fs::exists(kRoot + '/' + match->str(1))) << match->str(1);
  EXPECT_GT(count, 20U);
}

TEST(PageReadingTest, AnExcerptHasItsLinesInOrder) {
  const std::string output = "one 1\ntwo 2\nthree 3 and more\n";
  EXPECT_EQ(difference({"one 1", "…", "three …"}, output, false), "");
  EXPECT_EQ(difference({"two 2", "one 1"}, output, false), "one 1");  // the order counts
  EXPECT_EQ(difference({"two 3"}, output, false), "two 3");
  EXPECT_EQ(difference({"two   17.5"}, output, true), "");       // marked: figures vary
  EXPECT_EQ(difference({"three 3"}, output, false), "three 3");  // a whole line must match unless it ends with …
}

// Prints the summary at the end of ctest: each reason for a skip once, with the number of its tests.
TEST(SkippedTestsTest, TheSummaryCountsAndNamesReasons) {
  const Checkout checkout("skipped");
  checkout.write("log",
                 {"/a_test.cpp:3: Skipped", "no GPU: nothing here", "", "[  SKIPPED ] A.one (0 ms)", "<end of output>",
                  "[       OK ] A.two (0 ms)", "/a_test.cpp:9: Skipped", "no mpirun", "", "[  SKIPPED ] A.three (0 ms)",
                  "/a_test.cpp:3: Skipped", "no GPU: nothing here", "", "[  SKIPPED ] A/B.four/0 (12 ms)"});
  const std::string run =
      "mkdir -p b/Testing/Temporary && mv log b/Testing/Temporary/LastTest.log.tmp && sh scripts/skipped_tests.sh b";
  EXPECT_EQ(checkout.run(run).output, "3 tests skipped: 2 no GPU: nothing here; 1 no mpirun\n");
}

TEST(PageReadingTest, CommandsAreJoinedAndFreeOfComments) {
  const Block block{1, "sh", {"# a comment", "plimsoll a \\", "  --b     # why", "", "plimsoll c"}, {}};
  EXPECT_THAT(commands_of(block), ::testing::ElementsAre("plimsoll a --b", "plimsoll c"));
}

}  // namespace
}  // namespace plimsoll::docs

// SPDX-License-Identifier: Apache-2.0
// A file of events written by hand: the decisions that it leads to, and that a damaged file is refused with its line.
#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/error.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::sim {
namespace {

using ::testing::HasSubstr;

const std::string kHeading =
    R"({"v":1,"event":"run","point":2,"policy":"vllm_v1","replicas":1,"kv_blocks":9,"block_tokens":16,)"
    R"("prefix_caching":false,"swap_blocks":0,"model_max_len":4096,"window":0})"
    "\n";
const std::string kArrival =
    R"({"t":5,"event":"arrival","replica":0,"id":0,"input":6,"output":2,"max_new":2,"sent":0,"name":"A"})"
    "\n";
const std::string kDecide = R"({"t":5,"event":"decide","replica":0})"
                            "\n";
const std::string kStep = R"({"t":900,"event":"step","replica":0,"start":100})"
                          "\n";
const std::string kSecondEvent = R"({"t":900,"event":"decide","replica":0})"
                                 "\n"
                                 R"({"t":1900,"event":"step","replica":0,"start":950})"
                                 "\n";
const std::string kEnd = R"({"t":2000,"event":"end"})"
                         "\n";

class ReplayTest : public ::testing::Test {
 protected:
  ~ReplayTest() override { std::filesystem::remove(file_); }
  std::vector<std::string> run(const std::string& text) {
    std::ofstream(file_, std::ios::binary) << text;
    return replay(file_, testing::base_scenario());
  }
  std::string refusal(const std::string& text) {
    try {
      (void)run(text);
    } catch (const InputError& error) {
      EXPECT_EQ(error.where().file, file_);
      return std::to_string(error.where().line) + ": " + error.text();
    }
    return "accepted";
  }
  std::string file_ =
      (std::filesystem::temp_directory_path() / ("plimsoll-replay-" + std::to_string(::getpid()))).string();
};

TEST_F(ReplayTest, DecidesWhatTheEventsLeadTo) {
  EXPECT_EQ(run(kHeading + kArrival + kDecide + kStep + kSecondEvent + kEnd).at(0), "1: P[A:6]\n2: D[A]\n");
  EXPECT_EQ(replayed_point(file_), 2U);
}

TEST_F(ReplayTest, RefusesAFileThatWasCutOff) {
  EXPECT_THAT(refusal(kHeading + kArrival + kDecide), HasSubstr("3: the file is truncated after this line"));
  EXPECT_THAT(refusal(kHeading + kArrival.substr(0, 30)), HasSubstr("2: the file is truncated: its last line is "
                                                                    "incomplete"));
  EXPECT_THAT(refusal(""), HasSubstr("0: the file is empty"));
}

TEST_F(ReplayTest, RefusesWhatCannotHaveHappened) {
  const std::string start = kHeading + kArrival + kDecide;
  EXPECT_THAT(refusal(start + kDecide), HasSubstr("4: a step is decided while the one of line 3 is in flight"));
  EXPECT_THAT(refusal(start + kStep + kStep), HasSubstr("5: a step ends that was never decided"));
  EXPECT_THAT(refusal(kHeading + kStep), HasSubstr("2: a step ends that was never decided"));
  EXPECT_THAT(refusal(start + R"({"t":6,"event":"cancel","replica":0,"id":7})"
                              "\n"),
              HasSubstr("4: request 7 does not exist"));
  EXPECT_THAT(refusal(start + R"({"t":6,"event":"cancel","replica":0,"id":0})"
                              "\n"),
              HasSubstr("4: a request is cancelled while the step"));
  EXPECT_THAT(refusal(start + R"({"t":4,"event":"decide","replica":0})"
                              "\n"),
              HasSubstr("4: \"t\" is 4, allowed: a whole number from 5"));
  EXPECT_THAT(refusal(start + R"({"t":6,"event":"decide","replica":1})"
                              "\n"),
              HasSubstr("4: \"replica\" is 1"));
  EXPECT_THAT(refusal(start + R"({"t":6,"event":"nap","replica":0})"
                              "\n"),
              HasSubstr("4: event \"nap\", allowed: arrival"));
  EXPECT_THAT(refusal(start + R"({"t":6,"event":"land","replica":0,"id":0,"arrived":true})"
                              "\n"),
              HasSubstr("4: request 0 holds no blocks that wait for KV"));
  EXPECT_THAT(refusal(start + R"({"t":6,"event":"release","replica":0,"id":0})"
                              "\n"),
              HasSubstr("4: request 0 holds no blocks after its end"));
  EXPECT_THAT(refusal(kHeading + kArrival + kArrival), HasSubstr("3: request 0 already exists"));
  EXPECT_THAT(refusal(kHeading + kArrival + kDecide + kStep + kSecondEvent + kEnd + kEnd),
              HasSubstr("data follows the end event"));
}

TEST_F(ReplayTest, RefusesDamagedLines) {
  EXPECT_THAT(refusal("nothing\n"), HasSubstr("1: not a JSON object"));
  EXPECT_THAT(refusal(kArrival), HasSubstr("1: the first line is not the header"));
  EXPECT_THAT(refusal(kHeading + "{\"t\":5,\"event\":\n"), HasSubstr("2: not a JSON object"));
  EXPECT_THAT(
      refusal(kHeading + R"({"t":5,"event":"arrival","replica":0,"id":0,"input":0,"output":2,"max_new":2,"sent":0})"
                         "\n"),
      HasSubstr("2: \"input\" is 0"));
  EXPECT_THAT(
      refusal(kHeading + R"({"t":5,"event":"arrival","replica":0,"id":0,"input":4,"output":3,"max_new":2,"sent":0})"
                         "\n"),
      HasSubstr("2: \"output\" is 3, allowed: a whole number from 1 to 2"));
  EXPECT_THAT(refusal(kHeading + R"({"t":1e3,"event":"decide","replica":0})"
                                 "\n"),
              HasSubstr("2: \"t\" is 1000.0"));
  std::string other = kHeading;
  other.replace(other.find("vllm_v1"), 7, "sarathi");
  EXPECT_THAT(refusal(other), HasSubstr("1: a run of policy sarathi, but the study states vllm_v1"));
}

TEST_F(ReplayTest, RefusesPoolsThatTheStudyDoesNotState) {
  std::string pools = kHeading;
  pools.replace(pools.find("\"window\""), 0, "\"prefill\":{},");
  EXPECT_THAT(refusal(pools), HasSubstr("1: the run has pools, but the study states none"));
}

TEST_F(ReplayTest, RefusesAHeadingThatWouldTakeAllMemory) {
  std::string many = kHeading, wide = kHeading;
  many.replace(many.find("\"replicas\":1"), 12, "\"replicas\":2");
  EXPECT_THAT(refusal(many), HasSubstr("1: a run of 2 replicas, but the study states 1"));
  wide.replace(wide.find("\"block_tokens\":16"), 17, "\"block_tokens\":9999999");
  EXPECT_THAT(refusal(wide), HasSubstr("1: \"block_tokens\" is 9999999"));
}

TEST_F(ReplayTest, RefusesALineWithoutEnd) {
  EXPECT_THAT(refusal(std::string((std::size_t{16} << 20U) + 1, 'x')), HasSubstr("1: the line is longer than 16 MiB"));
}

TEST_F(ReplayTest, RefusesAFileThatIsNotThere) {
  EXPECT_THROW((void)replay("/nowhere/events.jsonl", testing::base_scenario()), InputError);
}

}  // namespace
}  // namespace plimsoll::sim

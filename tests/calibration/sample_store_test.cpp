// SPDX-License-Identifier: Apache-2.0
#include "calibration/sample_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/scratch.h"

namespace plimsoll::calibration {
namespace {

class SampleStoreTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }

  const Scratch folder_;
  const std::string file_ = folder_.path("samples");
};

OpSample sample(double seconds) {
  OpSample s;
  s.op = {.kind = model::OpKind::gemm,
          .id = model::OpId::qkv,
          .m = 3,
          .n = 768,
          .k = 512,
          .flops = 2359296,
          .weight_bytes = 786432.5};
  s.seconds = seconds;
  s.repeats = 20;
  return s;
}

TEST_F(SampleStoreTest, AnInterruptedCalibrationFindsItsGroupsAgain) {
  {
    SampleStore store(file_, "here 60 s");
    store.add("ops 0", {sample(1e-3), sample(2e-3)});
    store.add("ops 1", {sample(3e-3)});
  }
  SampleStore store(file_, "here 60 s");
  EXPECT_EQ(store.recalled(), 2U);
  const std::vector<OpSample>* group = store.find("ops 0");
  ASSERT_NE(group, nullptr);
  ASSERT_EQ(group->size(), 2U);
  EXPECT_EQ((*group)[1].op.id, model::OpId::qkv);
  EXPECT_EQ((*group)[1].op.k, 512);
  EXPECT_EQ((*group)[1].op.weight_bytes, 786432.5);
  EXPECT_EQ((*group)[1].seconds, 2e-3);
  EXPECT_EQ(store.find("ops 2"), nullptr);
}

// "forward" and "live" are not ops. The file keeps these names, and reading returns them in addition to the op.
TEST_F(SampleStoreTest, ATimeThatBelongsToNoOpKeepsItsName) {
  SampleStore(file_, "here").add_time("forward 3", "forward", 0.25);
  const SampleStore store(file_, "here");
  EXPECT_EQ(store.find_time("forward 3"), 0.25);
  ASSERT_NE(store.find("forward 3"), nullptr);
  const OpSample& time = store.find("forward 3")->front();
  EXPECT_EQ(time.op.id, model::OpId::none);
  EXPECT_EQ(time.time_of, "forward");
  EXPECT_EQ(sample_line(time), "12 forward 0 0 0 1 1 0 0 0 0 1 0 0.25 1");
}

// The process was killed while it wrote a line: the group of that line is measured again, and the next group is intact.
TEST_F(SampleStoreTest, AGroupWithoutItsEndDoesNotCount) {
  SampleStore(file_, "here").add("ops 0", {sample(1e-3)});
  append(sample_line(sample(2e-3)) + "\n" + sample_line(sample(2e-3)).substr(0, 20));
  {
    SampleStore store(file_, "here");
    EXPECT_EQ(store.recalled(), 1U);
    store.add("ops 1", {sample(4e-3)});
  }
  const SampleStore store(file_, "here");
  ASSERT_NE(store.find("ops 1"), nullptr);
  ASSERT_EQ(store.find("ops 1")->size(), 1U);
  EXPECT_EQ(store.find("ops 1")->front().seconds, 4e-3);
}

TEST_F(SampleStoreTest, OtherSettingsOrACompleteCalibrationBeginAnew) {
  SampleStore(file_, "here").add("ops 0", {sample(1e-3)});
  EXPECT_EQ(SampleStore(file_, "another machine").recalled(), 0U);
  {
    SampleStore store(file_, "here");
    store.add("ops 0", {sample(1e-3)});
    store.finish();
  }
  EXPECT_EQ(SampleStore(file_, "here").recalled(), 0U);
}

TEST_F(SampleStoreTest, TimesThatCannotBeAreNoSamples) {
  OpSample read;
  for (const char* seconds : {"nan", "-1", "0", "inf"}) {
    std::string line = sample_line(sample(0.5));
    line.replace(line.find(" 0.5 "), 5, std::string(" ") + seconds + " ");
    EXPECT_FALSE(read_sample_line(line, read)) << line;
  }
  EXPECT_TRUE(read_sample_line(sample_line(sample(0.5)), read));
}

}  // namespace
}  // namespace plimsoll::calibration

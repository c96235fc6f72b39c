// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "load/workload.h"
#include "model/error.h"

namespace plimsoll::load {
namespace {

std::size_t error_column(const std::string& text) {
  try {
    (void)parse_script(text);
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("column " + std::to_string(error.where().column)), std::string::npos);
    return error.where().column;
  }
  ADD_FAILURE() << text << " was accepted";
  return 0;
}

TEST(Script, CapDefaultsToOutputAndStepToOne) {
  const auto requests = parse_script(" A:6+3@1\tB:5+4/8@2  C:1+1/1 ");
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0], (ScriptRequest{"A", 6, 3, 3, 1}));
  EXPECT_EQ(requests[1], (ScriptRequest{"B", 5, 4, 8, 2}));
  EXPECT_EQ(requests[2], (ScriptRequest{"C", 1, 1, 1, 1}));
}

TEST(Script, ErrorsNameTheByteColumn) {
  EXPECT_EQ(error_column(""), 1U);
  EXPECT_EQ(error_column(":6+3"), 1U);
  EXPECT_EQ(error_column("A 6+3"), 2U);
  EXPECT_EQ(error_column("A:+3"), 3U);
  EXPECT_EQ(error_column("A:0+3"), 3U);
  EXPECT_EQ(error_column("A:6-3"), 4U);
  EXPECT_EQ(error_column("A:6+"), 5U);
  EXPECT_EQ(error_column("A:6+3/"), 7U);
  EXPECT_EQ(error_column("A:6+3@0"), 7U);
  EXPECT_EQ(error_column("A:6+3@1/4"), 8U);
  EXPECT_EQ(error_column("A:6+2147483648"), 5U);
  EXPECT_EQ(error_column("A:6+3 A:1+1"), 7U);
  EXPECT_EQ(error_column("A:6+3 " + std::string(100'000, '9')), 7U);
}

TEST(Script, TheCapCutsTheTrueOutput) {
  WorkloadSpec spec;
  spec.load = Script{parse_script("A:6+30/8 B:5+4/9@3")};
  spec.requests = 1;  // a script fixes its own number
  Workload workload(spec, 0);
  EXPECT_EQ(workload.planned_requests(), 2);
  // A is visible before step 1, at the start; B before step 3, after two steps of 1 ms.
  EXPECT_EQ(workload.next_arrival(), Nanos{0});
  EXPECT_EQ(workload.next_arrival(), Nanos{2'000'000});
  EXPECT_FALSE(workload.next_arrival().has_value());
  const auto a = workload.next_body(), b = workload.next_body();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->name, "A");
  EXPECT_EQ(a->output_tokens, 8);
  EXPECT_EQ(a->max_new_tokens, 8);
  EXPECT_EQ(b->output_tokens, 4);
  EXPECT_EQ(b->max_new_tokens, 9);
  EXPECT_FALSE(workload.next_body().has_value());
}

}  // namespace
}  // namespace plimsoll::load

// SPDX-License-Identifier: Apache-2.0
#include "net/json_shape.h"

#include <gtest/gtest.h>

namespace plimsoll::net {
namespace {

TEST(JsonShape, NestingIsBounded) {
  EXPECT_EQ(fault_of_json_shape(std::string(64, '[')), "");
  EXPECT_EQ(fault_of_json_shape(std::string(65, '[')), "nests deeper than 64 levels");
}

// What a string holds is text, escaped quotes included; numbers are not counted.
TEST(JsonShape, OnlyValuesThatTakeMoreMemoryThanTheirTextCount) {
  std::string numbers = "[", strings = "[";
  for (int i = 0; i < 100'000; ++i) {
    numbers += "1,";
    strings += "\"\",";
  }
  EXPECT_EQ(fault_of_json_shape(numbers), "");
  EXPECT_EQ(fault_of_json_shape(strings), "has more than 100000 strings, lists and objects");
  EXPECT_EQ(fault_of_json_shape('"' + std::string(200, '[') + "\\\"" + std::string(200, '{') + '"'), "");
}

// The text is examined before it is parsed, so that it may be cut or unbalanced.
TEST(JsonShape, TextsThatAreNotJsonAreExaminedToo) {
  for (const char* text : {"", "]]}}", "\"", "\"\\", "[\"a\\\"["}) EXPECT_EQ(fault_of_json_shape(text), "") << text;
  EXPECT_EQ(fault_of_json_shape("]" + std::string(66, '{')), "nests deeper than 64 levels");
}

}  // namespace
}  // namespace plimsoll::net

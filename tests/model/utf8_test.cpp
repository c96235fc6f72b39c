// SPDX-License-Identifier: Apache-2.0
#include "model/input_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace plimsoll {
namespace {

// Encodes a code point in a sequence of the given length by the scheme of UTF-8, whether that is valid or not.
std::string encoded(std::uint32_t point, std::size_t length) {
  if (length == 1) return {static_cast<char>(point)};
  std::string bytes(length, '\0');
  for (std::size_t i = length; --i > 0; point >>= 6U) bytes[i] = static_cast<char>(0x80U | (point & 0x3fU));
  bytes[0] = static_cast<char>((0xf00U >> length) | point);
  return bytes;
}

// For each code point below 2^21 only the shortest sequence is valid UTF-8, and none for surrogates or beyond U+10FFFF.
TEST(Utf8, OnlyTheShortestSequenceOfACharacterIsWellFormed) {
  constexpr std::uint32_t kRoom[] = {0, 0x80, 0x800, 0x10000, 0x200000};  // limits of code points by number of bytes
  for (std::uint32_t point = 0; point < kRoom[4]; point += point < 0x11000 ? 1 : 97) {
    for (std::size_t length = 1; length <= 4; ++length) {
      if (point >= kRoom[length]) continue;
      const bool shortest = point >= kRoom[length - 1] || length == 1;
      const bool character = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
      ASSERT_EQ(utf8_length(encoded(point, length) + "x"), shortest && character ? length : 0)
          << point << " in " << length;
    }
  }
}

TEST(Utf8, WhatIsCutOffOrBeginsInTheMiddleIsNot) {
  EXPECT_EQ(utf8_length("\xe2\x82"), 0U);
  EXPECT_EQ(utf8_length("\xe2\x82x"), 0U);
  EXPECT_EQ(utf8_length("\x82\xac"), 0U);
  EXPECT_EQ(utf8_length("\xff"), 0U);
}

}  // namespace
}  // namespace plimsoll

// SPDX-License-Identifier: Apache-2.0
#include "validation/error_summary.h"

#include <gtest/gtest.h>

namespace plimsoll::validation {
namespace {

// Absolute errors 0.1, 0.2 ... 0.5: the median is the middle one; p90 is 0.1 + 0.9 x 0.4 = 0.46.
TEST(ErrorSummary, QuantilesInterpolateBetweenSizes) {
  const ErrorSummary s = summarise_errors({0.5, -0.1, 0.3, -0.2, 0.4});
  EXPECT_EQ(s.count, 5U);
  EXPECT_DOUBLE_EQ(s.mean, 0.3);
  EXPECT_DOUBLE_EQ(s.median, 0.3);
  EXPECT_DOUBLE_EQ(s.p90, 0.46);
  EXPECT_DOUBLE_EQ(s.bias, 0.9 / 5);
}

TEST(ErrorSummary, OfNothingIsZero) {
  EXPECT_EQ(summarise_errors({}).count, 0U);
  EXPECT_EQ(summarise_errors({}).p90, 0);
}

// Seven of eight bands hold 87.5 %, which rounds to the even 88; without bands there is nothing to say.
TEST(ErrorSummary, CoverageIsTheShareOfBandsThatHold) {
  ErrorSummary s;
  EXPECT_EQ(s.coverage(), "");
  s.banded = 8;
  s.in_band = 7;
  EXPECT_EQ(s.coverage(), "88 %");
}

}  // namespace
}  // namespace plimsoll::validation

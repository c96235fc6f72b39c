// SPDX-License-Identifier: Apache-2.0
#include "endpoints/redact.h"

#include <gtest/gtest.h>

namespace plimsoll::endpoints {
namespace {

TEST(ShownText, StrikesOutKeysAndTheirParts) {
  EXPECT_EQ(shown_text("bad key abc", {"abc"}, {}), "bad key [...]");
  EXPECT_EQ(shown_text("bad key sk-12345678***", {"sk-12345678-secret"}, {}), "bad key [...]***");
}

TEST(ShownText, StrikesOutWhatThePromptSaid) {
  EXPECT_EQ(shown_text("cannot read 'the secret story of'", {}, "tell the secret story of gold"),
            "cannot read '[...]'");
  EXPECT_EQ(shown_text("cannot read [101, 202,303]", {}, "101,202,303"), "cannot read [[...]]");
}

TEST(ShownText, IsShortAndPrintable) {
  EXPECT_EQ(shown_text("a\n\x1b[31mb\xC3\xA4 c", {}, {}), "a [31mb c");
  EXPECT_EQ(shown_text(std::string(100'000, 'x'), {}, {}).size(), 200U);
}

TEST(ShownText, KeepsNumbersThatExplainALimit) {
  const std::string text = "This model's maximum context length is 4096 tokens, you asked for 5000";
  EXPECT_EQ(shown_text(text, {}, {}), text);
}

}  // namespace
}  // namespace plimsoll::endpoints

// SPDX-License-Identifier: Apache-2.0
#include "net/sse.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace plimsoll::net {
namespace {

using Messages = std::vector<std::string>;  // "event|data"

template <class Reader>
bool feed(Reader& reader, std::string_view text, Messages& out) {
  return reader.feed(text, [&](const StreamMessage& message) {
    out.push_back(std::string(message.event) + '|' + std::string(message.data));
    return true;
  });
}

Messages events(std::string_view text) {
  SseReader reader;
  Messages out;
  EXPECT_TRUE(feed(reader, text, out));
  return out;
}

TEST(Sse, AnEventEndsWithABlankLineWhateverItsLineEnds) {
  const Messages expected{"|a", "|b"};
  EXPECT_EQ(events("data: a\n\ndata: b\n\n"), expected);
  EXPECT_EQ(events("data: a\r\n\r\ndata: b\r\n\r\n"), expected);
  EXPECT_EQ(events("data: a\r\rdata: b\r\r"), expected);
}

// By the standard, one space after the colon is not part of the value, and data lines are joined by line feeds.
TEST(Sse, ReadsFieldsAsTheStandardSays) {
  EXPECT_EQ(events("data:a\ndata:  b\n\n"), Messages{"|a\n b"});
  EXPECT_EQ(events("event: error\ndata: x\n\ndata: y\n\n"), (Messages{"error|x", "|y"}));
  EXPECT_EQ(events("\xEF\xBB\xBF"
                   "data: a\n\n"),
            Messages{"|a"});
}

TEST(Sse, CommentsOtherFieldsAndEventsWithoutDataAreNone) {
  EXPECT_EQ(events(": ping\n\nid: 3\nretry: 9\n\nevent: end\n\ndata: a\n\n"), Messages{"|a"});
}

TEST(Sse, AnEventThatIsCutOffIsDropped) {
  SseReader reader;
  Messages out;
  EXPECT_TRUE(feed(reader, "data: a\n\ndata: b\n", out));
  EXPECT_EQ(out, Messages{"|a"});
  EXPECT_TRUE(reader.is_inside_event());
}

TEST(Sse, AnEndlessLineAndAnEndlessEventAreRefused) {
  const std::string part(kMaxMessage / 4, 'x');
  SseReader line, event;
  Messages out;
  bool goes_on = feed(line, "data: ", out);
  int fed = 0;
  for (; goes_on && fed < 100; ++fed) goes_on = feed(line, part, out);
  EXPECT_LT(fed, 6);
  goes_on = true;
  for (fed = 0; goes_on && fed < 100; ++fed) goes_on = feed(event, "data: " + part + "\n", out);
  EXPECT_LT(fed, 6);
  EXPECT_TRUE(out.empty());
}

TEST(Sse, TheReceiverStopsTheStream) {
  SseReader reader;
  int calls = 0;
  EXPECT_FALSE(reader.feed("data: a\n\ndata: b\n\n", [&](const StreamMessage&) { return ++calls > 1; }));
  EXPECT_EQ(calls, 1);
}

TEST(JsonLines, ALineIsAMessageAndBlankOnesAreNone) {
  JsonLinesReader reader;
  Messages out;
  EXPECT_TRUE(feed(reader, "{\"a\":1}\r\n\n  \n{\"b\":\"\r\"}\n{\"c\":", out));
  EXPECT_EQ(out, (Messages{"|{\"a\":1}", "|{\"b\":\"\r\"}"}));
  EXPECT_TRUE(feed(reader, "3}", out));
  EXPECT_TRUE(reader.finish([&](const StreamMessage& message) { return message.data == "{\"c\":3}"; }));
}

// The network may split the bytes anywhere.
RC_GTEST_PROP(Sse, MessagesDoNotDependOnWhereTheBytesAreSplit, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("da: ta\n\r\n\nevnt{}")));
  const auto cut = *rc::gen::inRange<std::size_t>(0, text.size() + 1);
  const std::string whole = "data: x\r\n" + text + "\n\ndata: y\n\n";
  SseReader at_once, in_parts, by_byte;
  Messages expected, parts, bytes;
  RC_ASSERT(feed(at_once, whole, expected));
  RC_ASSERT(feed(in_parts, std::string_view(whole).substr(0, cut), parts));
  RC_ASSERT(feed(in_parts, std::string_view(whole).substr(cut), parts));
  for (const char c : whole) RC_ASSERT(feed(by_byte, std::string_view(&c, 1), bytes));
  RC_ASSERT(parts == expected);
  RC_ASSERT(bytes == expected);
}

}  // namespace
}  // namespace plimsoll::net

// SPDX-License-Identifier: Apache-2.0
#include "net/http_response.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plimsoll::net {
namespace {

struct Read {
  HttpResponseReader::State state = HttpResponseReader::State::reading;
  int status = 0;
  std::string body, error;
  bool keeps_alive = false;
};

// Feeds `text` in pieces of `step` bytes, and then the end of the connection if `ends`.
Read read(std::string_view text, std::size_t step, bool ends = false) {
  Read out;
  HttpResponseReader reader({.head =
                                 [&](const HttpHead& head) {
                                   out.status = head.status;
                                   return true;
                                 },
                             .body =
                                 [&](std::string_view bytes) {
                                   out.body += bytes;
                                   return true;
                                 }});
  for (std::size_t i = 0; i < text.size(); i += step) out.state = reader.feed(text.substr(i, step));
  if (ends) out.state = reader.ended();
  out.error = reader.error();
  if (out.state == HttpResponseReader::State::done) out.keeps_alive = reader.keeps_alive();
  return out;
}

using State = HttpResponseReader::State;
constexpr std::string_view kChunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(HttpResponse, BodiesAreTheSameHoweverTheBytesAreSplit) {
  const std::string chunked = std::string(kChunked) + "5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nA: b\r\n\r\n";
  for (const std::string& text : {std::string("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello, world"), chunked}) {
    for (const std::size_t step : {1, 2, 7, 1000}) {
      const Read got = read(text, step);
      EXPECT_EQ(got.state, State::done) << step;
      EXPECT_EQ(got.body, "hello, world") << step;
      EXPECT_TRUE(got.keeps_alive);
    }
  }
}

TEST(HttpResponse, AnInterimAnswerIsNoneYet) {
  const Read got = read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 3);
  EXPECT_EQ(got.state, State::done);
  EXPECT_EQ(got.status, 204);
}

// In HTTP/1.0, the end of the connection ends a body.
TEST(HttpResponse, ABodyMayLastUntilTheConnectionEnds) {
  const Read got = read("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello", 4, true);
  EXPECT_EQ(got.state, State::done);
  EXPECT_EQ(got.body, "hello");
  EXPECT_FALSE(got.keeps_alive);
}

TEST(HttpResponse, AnAnswerThatIsCutOffIsMalformed) {
  for (const std::string& text : {std::string(), std::string("HTTP/1.1 200 OK\r\nContent-"),
                                  std::string("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello"),
                                  std::string(kChunked) + "5\r\nhel", std::string(kChunked) + "5\r\nhello\r\n"})
    EXPECT_EQ(read(text, 1, true).state, State::malformed) << text;
}

TEST(HttpResponse, GarbageIsMalformed) {
  for (const std::string& text :
       {std::string("garbage\r\n\r\n"), std::string("HTTP/2 200\r\n\r\n"), std::string("HTTP/1.1 abc OK\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
        std::string(kChunked) + "xyz\r\n", std::string(kChunked) + "3\r\nhello\r\n",
        std::string(kChunked) + "FFFFFFFFFFFFFFFFFF\r\n"})
    EXPECT_EQ(read(text, 1).state, State::malformed) << text;
}

// A parser that waits for CR LF would wait until the server closes.
TEST(HttpResponse, LinesThatEndWithLfAloneAreMalformed) {
  for (const std::string& text :
       {std::string("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"), std::string("HTTP/1.1 200 OK\r\nA: b\n\nhi"),
        std::string(kChunked) + "2\nhi\n0\n\n", std::string(kChunked) + "2\r\nhi\n"})
    for (const std::size_t step : {1, 1000}) EXPECT_EQ(read(text, step).state, State::malformed) << text;
}

TEST(HttpResponse, EndlessHeadersAreRefused) {
  const std::string endless(2 * kMaxHeader, 'x');
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nA: " + endless, 4096).state, State::malformed);
  EXPECT_EQ(read(std::string(kChunked) + "1;" + endless, 4096).state, State::malformed);
}

// A server could otherwise keep the client busy without end.
TEST(HttpResponse, EndlessInterimAnswersAreRefused) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "HTTP/1.1 100 Continue\r\n\r\n";
  const std::string final = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
  EXPECT_EQ(read(text + final, 4096).state, State::done);
  EXPECT_EQ(read(text + "HTTP/1.1 103 Early Hints\r\n\r\n" + final, 7).state, State::malformed);
}

TEST(HttpResponse, BytesAfterTheAnswerMakeTheConnectionUseless) {
  const Read got = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200", 1000);
  EXPECT_EQ(got.state, State::done);
  EXPECT_FALSE(got.keeps_alive);
}

TEST(HttpResponse, TheReceiverStopsTheBody) {
  HttpResponseReader reader(
      {.head = [](const HttpHead&) { return true; }, .body = [](std::string_view) { return false; }});
  EXPECT_EQ(reader.feed("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"), State::stopped);
}

RC_GTEST_PROP(HttpResponse, AnyBytesEndInAState, ()) {
  using std::string_literals::operator""s;
  const auto tail = *rc::gen::container<std::string>(rc::gen::elementOf("0123fF\r\n\r\n: ;,\0ab"s));
  const auto step = *rc::gen::inRange<std::size_t>(1, 9);
  const Read got = read(std::string(kChunked) + tail, step, true);
  RC_ASSERT(got.state != State::reading);
}

}  // namespace
}  // namespace plimsoll::net

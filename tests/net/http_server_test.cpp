// SPDX-License-Identifier: Apache-2.0
// Honest and hostile clients over loopback. The tests measure no times.
#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/net/test_client.h"

namespace plimsoll::net {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace testing;

/// Echoes requests; /never gets no answer, /stream gets three parts.
class Echo final : public HttpHandler {
 public:
  HttpServer* server = nullptr;
  std::atomic<int> left{0}, requests{0};
  std::vector<HttpServer::Time> received, asked;  // of each request: its time, and when request() was called
  std::vector<std::string> keys;                  // of each request: the header Authorization

  void request(ExchangeId id, ServerRequest&& request) override {
    ++requests;
    received.push_back(request.received);
    keys.push_back(request.authorization);
    asked.push_back(std::chrono::steady_clock::now());
    if (request.path == "/never") return;
    if (request.path != "/stream")
      return server->answer(
          id, {.content_type = "text/plain", .body = request.method + ' ' + request.path + ' ' + request.body});
    server->begin_stream(id, "text/plain");
    for (const char* const part : {"one ", "two ", "three"}) server->write(id, part, part[0] == 't' && part[1] == 'h');
  }
  void writable(ExchangeId) override {}
  void gone(ExchangeId) override { ++left; }
  std::string error_body(int status, std::string_view text) override {
    return std::to_string(status) + ": " + std::string(text);
  }
  void stop_requested() override {}
};

class HttpServerTest : public ::testing::Test {
 protected:
  void start(const HttpLimits& limits = {}) {
    server_.emplace(echo_, limits, "X-Test: yes\r\n");
    echo_.server = &*server_;
    port_ = port_of(server_->listen("127.0.0.1", 0));
    thread_ = std::thread([this] {
      while (!stop_) server_->run_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
    });
  }
  void TearDown() override { join(); }
  void join() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void wait_until(const std::function<bool()>& holds) const {
    while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  Echo echo_;
  std::optional<HttpServer> server_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::uint16_t port_ = 0;
};

TEST_F(HttpServerTest, AnswersARequestAndClosesWhenAsked) {
  start();
  const std::string answer = talk(port_, post("/a?x=1", "hello"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Test: yes\r\n"));
  EXPECT_EQ(body_of(answer), "POST /a hello");
}

TEST_F(HttpServerTest, KeepsAConnectionOpenAndAnswersPipelinedRequestsInOrder) {
  start();
  PlainClient client(port_);
  client.send("GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\n" + get("/3"));
  const std::string all = client.read();
  EXPECT_LT(all.find("GET /1 "), all.find("GET /2 "));
  EXPECT_LT(all.find("GET /2 "), all.find("GET /3 "));
  EXPECT_NE(all.find("GET /3 "), std::string::npos);
}

// A proxy's clients send whole URLs, and every server accepts them (RFC 9112, section 3.2.2).
TEST_F(HttpServerTest, TakesThePathOfAWholeUrl) {
  start();
  for (const char* const target : {"http://t:80/ok?x=1", "HTTP://t/ok", "/ok?http://u/v"})
    EXPECT_EQ(body_of(talk(port_, std::string("GET ") + target + " HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")),
              "GET /ok ")
        << target;
}

// All three requests are read at once, but a server sees the second only after it has answered the first.
TEST_F(HttpServerTest, APipelinedRequestComesWhenItsTurnComes) {
  start();
  talk(port_, "GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\n" + get("/3"));
  join();
  ASSERT_EQ(echo_.received.size(), 3U);
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_GE(echo_.received[i], echo_.asked[i - 1]);
    EXPECT_LE(echo_.received[i], echo_.asked[i]);
  }
}

TEST_F(HttpServerTest, StreamsInChunksAndToOldClientsUntilTheEnd) {
  start();
  EXPECT_EQ(body_of(talk(port_, get("/stream"))), "4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n");
  EXPECT_EQ(body_of(talk(port_, "GET /stream HTTP/1.0\r\n\r\n")), "one two three");
}

TEST_F(HttpServerTest, ReadsAChunkedBodyByteByByte) {
  start();
  PlainClient client(port_);
  for (const char c :
       std::string("POST /c HTTP/1.1\r\nHost: t\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))
    client.send(std::string_view(&c, 1));
  EXPECT_EQ(body_of(client.read()), "POST /c abcde");
}

TEST_F(HttpServerTest, AnswersHeadWithoutABodyAndContinuesWhenExpected) {
  start();
  EXPECT_EQ(body_of(talk(port_, "HEAD /h HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")), "");
  PlainClient client(port_);
  client.send("POST /e HTTP/1.1\r\nHost: t\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(client.read("\r\n\r\n"), StartsWith("HTTP/1.1 100 Continue"));
  client.send("ok");
  EXPECT_EQ(body_of(client.read()), "POST /e ok");
}

TEST_F(HttpServerTest, RefusesWhatIsNoRequestOrBeyondALimit) {
  start({.header_bytes = 1024, .body_bytes = 1000});
  EXPECT_THAT(talk(port_, "garbage\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(talk(port_, std::string("\x16\x03\x01\x02", 4) + std::string(600, '\0')), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(talk(port_, get("/" + std::string(5000, 'a'))), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(talk(port_, get("/", "X: " + std::string(100'000, 'b') + "\r\n")), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(talk(port_, post("/", std::string(1001, 'c'))), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(talk(port_, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999999999999\r\n\r\n"),
              StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(talk(port_, post("/", "x", "Content-Encoding: gzip\r\n")), StartsWith("HTTP/1.1 415 "));
  const std::string chunks = "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: ";
  EXPECT_THAT(talk(port_, chunks + "gzip, chunked\r\n\r\n"), StartsWith("HTTP/1.1 501 "));
  EXPECT_THAT(talk(port_, chunks + "chunked\r\n\r\n1;" + std::string(5000, 'e')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(talk(port_, chunks + "chunked\r\n\r\n0\r\nT: " + std::string(5000, 't')), StartsWith("HTTP/1.1 4"));
  EXPECT_EQ(echo_.requests, 0);
  EXPECT_EQ(body_of(talk(port_, get("/ok"))), "GET /ok ");
}

// Servers and proxies that read a length differently can be made to see other requests (RFC 9112, section 11.2).
TEST_F(HttpServerTest, RefusesLengthsThatCanBeReadInTwoWays) {
  start();
  for (const char* const lines :
       {"Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Content-Length: -1", "Content-Length: +5", "Content-Length: 5, 6", "Content-Length: 5 6",
        "Content-Length: 0x5", "Content-Length:", "Content-Length : 5", "Content-Length: 18446744073709551616"})
    EXPECT_THAT(talk(port_, std::string("POST / HTTP/1.1\r\nHost: t\r\n") + lines + "\r\n\r\nhello"),
                StartsWith("HTTP/1.1 400 "))
        << lines;
  EXPECT_THAT(talk(port_, "GET / HTTP/9.9\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(talk(port_, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(talk(port_, post("/", "hello", "Transfer-Encoding: gzip\r\n")), StartsWith("HTTP/1.1 501 "));
  EXPECT_THAT(talk(port_, post("/", "hello", "Transfer-Encoding:\r\n")), StartsWith("HTTP/1.1 501 "));
  EXPECT_EQ(echo_.requests, 0);
  // The same length twice can be read in one way only.
  EXPECT_EQ(body_of(talk(port_, post("/", "hello", "Content-Length: 5\r\n"))), "POST / hello");
}

TEST_F(HttpServerTest, RefusesChunksWhoseSizesAreNoHexadecimalNumbers) {
  start();
  for (const char* const body :
       {"ZZ\r\n", "-1\r\n", "+5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", ";a=b\r\n", "\r\nhello\r\n",
        "10000000000000005\r\nhello\r\n", "5\r\nhello!\r\n0\r\n\r\n", "5\nhello\n0\n\n", "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nT: x\n\n", "5 6\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n", "5\r\nhello\r\n0x\r\n"})
    EXPECT_THAT(talk(port_, std::string("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n") + body),
                StartsWith("HTTP/1.1 400 "))
        << body;
  EXPECT_THAT(talk(port_, "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(echo_.requests, 0);
  PlainClient slow(port_);  // extensions, more zeros and fields behind the last chunk are no faults
  slow.send("POST /c HTTP/1.1\r\nHost: t\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n000");
  for (const char* const part : {";c\r", "\nT: x", "\r\n", "\r\n"}) slow.send(part);
  EXPECT_EQ(body_of(slow.read()), "POST /c ok");
}

// RFC 9112, section 3.2: HTTP/1.1 needs one Host, and no version may have two or an invalid one.
TEST_F(HttpServerTest, NeedsOneHostThatIsValid) {
  start();
  for (const char* const lines : {"", "Host: a\r\nHost: a\r\n", "Host: a\r\nhost: b\r\n", "Host: a b\r\n",
                                  "Host: a/b\r\n", "Host: u@a\r\n", "Host: a:80x\r\n", "Host: [::1\r\n"})
    EXPECT_THAT(talk(port_, std::string("GET / HTTP/1.1\r\n") + lines + "\r\n"), StartsWith("HTTP/1.1 400 ")) << lines;
  EXPECT_THAT(talk(port_, "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(talk(port_, "GET / HTTP/1.1\r\n\r\n"), HasSubstr("Host is missing"));
  EXPECT_EQ(echo_.requests, 0);
  for (const char* const host : {"", "a", "a:80", "127.0.0.1:8000", "[::1]:80", "[::1]", "a.b-c_d:"})
    EXPECT_EQ(body_of(talk(port_, std::string("GET / HTTP/1.1\r\nConnection: close\r\nHost: ") + host + "\r\n\r\n")),
              "GET / ")
        << host;
  EXPECT_EQ(body_of(talk(port_, "GET / HTTP/1.0\r\n\r\n")), "GET / ");
}

// Each of them gets its answer at once: a parser that waits for CR LF would wait until the time limit.
TEST_F(HttpServerTest, RefusesLinesThatProxiesReadDifferently) {
  start();
  for (const char* const request :
       {"GET / HTTP/1.1\nHost: t\n\n", "GET / HTTP/1.1\r\nHost: t\n\n", "GET / HTTP/1.1\r\nHost: t\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: t\r\nX: y\r\n z\r\n\r\n", "GET / HTTP/1.1\r\n Host: t\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: t\rX: y\r\n\r\n", "GET  / HTTP/1.1\r\nHost: t\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: t\r\n\r\n", "GET / HTTP/1.1\r\nHost : t\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: t\r\nX y\r\n\r\n", "GET /\r\n\r\n", "\r\n\r\nGET / HTTP/1.1\r\nHost: t\r\n\r\n"})
    EXPECT_THAT(talk(port_, request), StartsWith("HTTP/1.1 400 ")) << request;
  PlainClient slow(port_);  // the first line alone is no fault, and no header is complete with LF alone
  for (const char* const part : {"GET / HTTP/1.1\r\n", "Host: t\n", "\n"}) slow.send(part);
  EXPECT_THAT(slow.read(), StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(echo_.requests, 0);
}

// RFC 9112, section 2.2: some old clients send an empty line after a body.
TEST_F(HttpServerTest, IgnoresOneEmptyLineBeforeARequest) {
  start();
  PlainClient client(port_);
  client.send("POST /1 HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab\r");
  client.send("\n" + get("/2"));
  const std::string answers = client.read();
  EXPECT_THAT(answers, HasSubstr("POST /1 ab"));
  EXPECT_THAT(answers, HasSubstr("GET /2 "));
}

TEST_F(HttpServerTest, RefusesTargetsThatNameNoPath) {
  start();
  for (const char* const target : {"a", "*", "http:///a", "http://?x", "http://u@t/a", "ftp://t/a", "t:80"})
    EXPECT_THAT(talk(port_, std::string("GET ") + target + " HTTP/1.1\r\nHost: t\r\n\r\n"), StartsWith("HTTP/1.1 400 "))
        << target;
  EXPECT_EQ(echo_.requests, 0);
}

// A connection of HTTP/1.0 stays open only if both sides say so, and the end of a stream ends it.
TEST_F(HttpServerTest, KeepsOldConnectionsOpenOnlyWhenAsked) {
  start();
  EXPECT_THAT(talk(port_, "GET /1 HTTP/1.0\r\n\r\n"), HasSubstr("Connection: close\r\n"));
  PlainClient client(port_);
  client.send("GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
  EXPECT_THAT(client.read("GET /1 "), HasSubstr("Connection: keep-alive\r\n"));
  client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string stream = client.read();
  EXPECT_THAT(stream, HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(body_of(stream), "one two three");
}

// RFC 9110, section 10.1.1: no interim answer to HTTP/1.0, nor if the final answer is already known.
TEST_F(HttpServerTest, SendsContinueOnlyToClientsThatWaitForIt) {
  start({.body_bytes = 100});
  PlainClient old(port_);
  old.send("POST /e HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  old.send("ok");
  EXPECT_THAT(old.read(), StartsWith("HTTP/1.1 200 "));
  const std::string expects = "Host: t\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: ";
  EXPECT_THAT(talk(port_, "POST /e HTTP/1.1\r\n" + expects + "101\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(talk(port_, "POST /e HTTP/1.1\r\n" + expects + "2\r\n\r\nok"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(talk(port_, "POST /e HTTP/1.1\r\n" + expects + "0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(talk(port_, post("/e", "ok", "Expect: 200-ok\r\n")), StartsWith("HTTP/1.1 417 "));
}

// The fields behind a chunked body are not part of the header (RFC 9110, section 6.5.1).
TEST_F(HttpServerTest, TakesTheKeyFromTheHeaderAlone) {
  start();
  const std::string chunks = "Host: t\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n";
  const std::string body = "\r\n2\r\nok\r\n0\r\nAuthorization: Bearer late\r\nHost: u\r\nHost: v\r\n\r\n";
  EXPECT_EQ(body_of(talk(port_, "POST /t HTTP/1.1\r\n" + chunks + body)), "POST /t ok");
  talk(port_, "POST /t HTTP/1.1\r\nAuthorization: Bearer early\r\n" + chunks + body);
  join();
  EXPECT_EQ(echo_.keys, (std::vector<std::string>{"", "Bearer early"}));
}

// A client that sends 5000 requests ahead and reads nothing yet: others are answered, and it gets every answer later.
TEST_F(HttpServerTest, AFloodOfPipelinedRequestsIsAnsweredAndHarmsNobody) {
  start();
  PlainClient flood(port_, 4096);
  std::thread sender([&] {
    std::string all;
    for (int i = 0; i < 5000; ++i) all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: t\r\n\r\n";
    flood.send(all + get("/last"));
  });
  EXPECT_EQ(body_of(talk(port_, get("/ok"))), "GET /ok ");
  const std::string answers = flood.read();
  sender.join();
  EXPECT_NE(answers.find("GET /4999 "), std::string::npos);
  EXPECT_NE(answers.find("GET /last "), std::string::npos);
  EXPECT_EQ(echo_.requests, 5002);
}

TEST_F(HttpServerTest, TellsWhenAClientLeavesBeforeItsAnswer) {
  start();
  {
    PlainClient client(port_);
    client.send(get("/never"));
    wait_until([&] { return echo_.requests == 1; });
  }
  wait_until([&] { return echo_.left == 1; });
}

// Header and body each have a time limit, even if bytes keep arriving.
TEST_F(HttpServerTest, DropsClientsThatNeverFinishARequest) {
  start({.header_time = std::chrono::milliseconds(50), .body_time = std::chrono::milliseconds(50)});
  PlainClient silent(port_), half(port_), body(port_);
  half.send("GET / HTT");
  body.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n123");
  EXPECT_EQ(silent.read(), "");
  EXPECT_EQ(half.read(), "");
  EXPECT_EQ(body.read(), "");
}

TEST_F(HttpServerTest, HalfOpenConnectionsMakeRoomForOthers) {
  start({.connections = 8});
  std::vector<std::unique_ptr<PlainClient>> crowd;
  for (int i = 0; i < 40; ++i) crowd.push_back(std::make_unique<PlainClient>(port_));
  EXPECT_EQ(body_of(talk(port_, get("/ok"))), "GET /ok ");
  join();
  EXPECT_LE(server_->connections(), 8U);
}

TEST_F(HttpServerTest, TheLargestBodyIsDroppedWhenAllTogetherAreTooLarge) {
  start({.body_bytes = 100'000, .bodies_bytes = 50'000});
  PlainClient large(port_), small(port_);
  small.send("POST /s HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n" +
             std::string(19'999, 'a'));
  large.send("POST /l HTTP/1.1\r\nHost: t\r\nContent-Length: 90000\r\n\r\n" + std::string(60'000, 'b'));
  EXPECT_THAT(large.read(), StartsWith("HTTP/1.1 503 "));
  small.send("z");
  EXPECT_EQ(body_of(small.read()).size(), std::string("POST /s ").size() + 20'000);
}

}  // namespace
}  // namespace plimsoll::net

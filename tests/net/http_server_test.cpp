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

  void request(ExchangeId id, ServerRequest&& request) override {
    ++requests;
    received.push_back(request.received);
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
  EXPECT_THAT(talk(port_, "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"), StartsWith("HTTP/1.1 4"));
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
        "Content-Length: -1", "Content-Length: 5, 6", "Content-Length: 0x5", "Transfer-Encoding: chunked\r\n\r\nZZ"})
    EXPECT_THAT(talk(port_, std::string("POST / HTTP/1.1\r\nHost: t\r\n") + lines + "\r\n\r\nhello"),
                StartsWith("HTTP/1.1 400 "))
        << lines;
  EXPECT_THAT(talk(port_, "GET / HTTP/9.9\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(echo_.requests, 0);
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

// SPDX-License-Identifier: Apache-2.0
// The client against well-behaved and misbehaving servers, which are threads of this process on loopback.
#include "net/http_client.h"

#include <gtest/gtest.h>

#include "tests/net/canned_server.h"

namespace plimsoll::net {
namespace {

constexpr std::chrono::milliseconds kLong = std::chrono::seconds(60);  // never reached

HttpAnswer ask(EventLoop& loop, HttpClient& client, std::string target = "/", std::string body = {}) {
  HttpRequest request{.target = std::move(target), .content_type = {}, .body = std::move(body)};
  if (!request.body.empty()) request.method = "POST";
  return fetch(loop, client, std::move(request), {kLong});
}

// Sends one request to a server that runs the script on every connection.
HttpAnswer ask_once(const CannedServer::Script& script) {
  const CannedServer server(script);
  EventLoop loop;
  HttpClient client(loop, {.server = parse_url(server.url(), "server"), .proxy = {}, .tls = {}, .headers = {}});
  return ask(loop, client);
}

CannedServer::Script sends(std::string text) {
  return [text = std::move(text)](CannedPeer& peer) {
    if (!peer.request().empty()) peer.send(text);
  };
}

constexpr std::string_view kHello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

TEST(HttpClient, SendsARequestAndReadsTheAnswer) {
  std::string seen;
  const CannedServer server([&](CannedPeer& peer) {
    seen = peer.request();
    peer.send(kHello);
  });
  EventLoop loop;
  HttpClient client(
      loop,
      {.server = parse_url(server.url() + "/base", "server"), .proxy = {}, .tls = {}, .headers = {{"X-Key", "k"}}});
  const HttpAnswer answer = ask(loop, client, "/v1/x", "{}");
  EXPECT_TRUE(answer.is_complete());
  EXPECT_EQ(answer.head.status, 200);
  EXPECT_EQ(answer.body, "hello");
  EXPECT_TRUE(seen.starts_with("POST /base/v1/x HTTP/1.1\r\n"));
  EXPECT_NE(seen.find("Host: 127.0.0.1:" + std::to_string(server.port()) + "\r\n"), std::string::npos);
  EXPECT_NE(seen.find("\r\nX-Key: k\r\n"), std::string::npos);
  EXPECT_TRUE(seen.ends_with("\r\n\r\n{}"));
}

TEST(HttpClient, KeepsAConnectionAndUsesItAgain) {
  const CannedServer server([](CannedPeer& peer) {
    while (!peer.request().empty()) peer.send(kHello);
  });
  EventLoop loop;
  HttpClient client(loop, {.server = parse_url(server.url(), "server"), .proxy = {}, .tls = {}, .headers = {}});
  for (int i = 0; i < 3; ++i) {
    const HttpAnswer answer = ask(loop, client);
    EXPECT_EQ(answer.body, "hello");
    EXPECT_EQ(answer.end.connecting.count() > 0, i == 0);
  }
  EXPECT_EQ(server.connections(), 1U);
}

// The server reads the second request on a kept connection and closes it without an answer, as after a long idle time.
TEST(HttpClient, ReplacesAKeptConnectionThatClosesBeforeTheAnswerOnce) {
  const CannedServer server([](CannedPeer& peer) {
    if (!peer.request().empty()) peer.send(kHello);
    (void)peer.request();
  });
  EventLoop loop;
  HttpClient client(loop, {.server = parse_url(server.url(), "server"), .proxy = {}, .tls = {}, .headers = {}});
  EXPECT_FALSE(ask(loop, client).end.reopened);
  const HttpAnswer second = ask(loop, client);
  EXPECT_EQ(second.body, "hello");
  EXPECT_TRUE(second.end.reopened);
  EXPECT_EQ(server.connections(), 2U);
}

TEST(HttpClient, ANewConnectionThatClosesIsAFailure) {
  const HttpAnswer answer = ask_once([](CannedPeer& peer) { (void)peer.request(); });
  EXPECT_EQ(answer.end.failure, HttpFailure::closed);
  EXPECT_FALSE(answer.end.reopened);
}

TEST(HttpClient, SaysThatNothingListens) {
  std::string url;
  {
    const CannedServer server(sends(""));
    url = server.url();
  }
  EventLoop loop;
  HttpClient client(loop, {.server = parse_url(url, "server"), .proxy = {}, .tls = {}, .headers = {}});
  EXPECT_EQ(ask(loop, client).end.failure, HttpFailure::refused);
}

TEST(HttpClient, HostileAnswersAreMalformed) {
  for (const char* const text :
       {"garbage that is no HTTP\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n"})
    EXPECT_EQ(ask_once(sends(text)).end.failure, HttpFailure::malformed) << text;
  EXPECT_EQ(ask_once(sends("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")).end.failure, HttpFailure::closed);
}

TEST(HttpClient, AnEndlessBodyIsCutWhereItIsEnough) {
  const HttpAnswer answer = ask_once([](CannedPeer& peer) {
    (void)peer.request();
    peer.send("HTTP/1.1 200 OK\r\n\r\n");
    while (peer.send(std::string(65536, 'x'))) {}
  });
  EXPECT_TRUE(answer.is_complete());
  EXPECT_EQ(answer.body.size(), std::size_t{1} << 20);
}

TEST(HttpClient, DoesNotFollowRedirects) {
  const HttpAnswer answer =
      ask_once(sends("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_EQ(answer.head.status, 302);
}

// The server notices a cancelled call because its connection is closed.
TEST(HttpClient, CancelClosesTheConnection) {
  std::atomic<bool> closed{false};
  const CannedServer server([&](CannedPeer& peer) {
    (void)peer.request();
    peer.wait_closed();
    closed = true;
  });
  EventLoop loop;
  HttpClient client(loop, {.server = parse_url(server.url(), "server"), .proxy = {}, .tls = {}, .headers = {}});
  const HttpAnswer answer =
      fetch(loop, client, {.target = "/", .content_type = {}, .body = {}}, {std::chrono::milliseconds(50)});
  EXPECT_TRUE(answer.timed_out);
  while (!closed) std::this_thread::yield();
  EXPECT_EQ(client.connections(), 0U);
}

TEST(HttpClient, AsksAProxyForTheWholeUrl) {
  std::string seen;
  const CannedServer proxy([&](CannedPeer& peer) {
    seen = peer.request();
    peer.send(kHello);
  });
  EventLoop loop;
  HttpClient client(loop, {.server = parse_url("http://server.invalid:81/a", "server"),
                           .proxy = parse_url(proxy.url(), "proxy"),
                           .tls = {},
                           .headers = {}});
  EXPECT_EQ(ask(loop, client, "/b").body, "hello");
  EXPECT_TRUE(seen.starts_with("GET http://server.invalid:81/a/b HTTP/1.1\r\nHost: server.invalid:81\r\n"));
}

TEST(HttpClient, AProxyThatRefusesATunnelIsAFailure) {
  const CannedServer proxy(sends("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"));
  EventLoop loop;
  HttpClient client(loop, {.server = parse_url("https://server.invalid", "server"),
                           .proxy = parse_url(proxy.url(), "proxy"),
                           .tls = {},
                           .headers = {}});
  const HttpAnswer answer = ask(loop, client);
  EXPECT_EQ(answer.end.failure, HttpFailure::refused);
  EXPECT_NE(answer.end.text.find("proxy"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::net

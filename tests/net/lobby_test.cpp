// SPDX-License-Identifier: Apache-2.0
// Which connections are accepted, and the most that rejected ones can cost. Strangers are sockets of this process.
#include "net/lobby.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "net/endpoint.h"

namespace plimsoll::net {
namespace {

const std::vector<std::string> kHere = {std::string(kLoopback)};
constexpr std::chrono::milliseconds kNeverReached =
    std::chrono::minutes(5);  // never reached: the expected message arrives

Socket stranger(const Lobby& lobby) {
  return connect_to(std::string(kLoopback), lobby.meeting().endpoints.front().port, within(kNeverReached));
}

bool send_raw(const Socket& socket, std::string_view bytes) {
  const std::array parts{std::as_bytes(std::span(bytes))};
  return socket.send(parts);
}

Link guest(const Lobby& lobby, const std::string& message) {
  Link link = reach(lobby.meeting());
  EXPECT_TRUE(link.send(lobby.meeting().token + ' ' + message));
  return link;
}

// Serves the lobby until it closes the other end of the socket.
void expect_closed(Lobby& lobby, const Socket& socket) {
  while (!socket.is_peer_gone()) EXPECT_FALSE(lobby.next(within(std::chrono::milliseconds(5))));
}

TEST(Lobby, LetsInWhatKnowsTheToken) {
  Lobby lobby(kHere);
  const Link link = guest(lobby, "hello there");
  const auto in = lobby.next(within(kNeverReached));
  ASSERT_TRUE(in);
  EXPECT_EQ(in->message, "hello there");
  EXPECT_EQ(in->introduction, "");
  ASSERT_TRUE(in->link.send("welcome"));
  EXPECT_EQ(link.receive_text(100), "welcome");
}

TEST(Lobby, HearsAGuestThatWasKept) {
  Lobby lobby(kHere);
  const Link link = guest(lobby, "rank 1"), quiet = guest(lobby, "rank 2");
  for (int i = 0; i < 2; ++i) {
    auto in = lobby.next(within(kNeverReached));
    ASSERT_TRUE(in);
    lobby.keep(std::move(in->link), in->message);
  }
  ASSERT_TRUE(link.send("and more"));
  const auto more = lobby.next(within(kNeverReached));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->introduction, "rank 1");
  EXPECT_EQ(more->message, "and more");
  EXPECT_EQ(lobby.dismiss().size(), 1U);
  EXPECT_TRUE(lobby.dismiss().empty());
}

struct Stranger {
  const char* name;
  std::function<std::string(const Lobby&)> says;
};

class StrangerTest : public ::testing::TestWithParam<Stranger> {};

// Each stranger is closed because of its message, long before its patience ends.
TEST_P(StrangerTest, IsClosedAndDelaysNoGuest) {
  Lobby lobby(kHere, kNeverReached);
  const Socket outside = stranger(lobby);
  ASSERT_TRUE(send_raw(outside, GetParam().says(lobby)));
  const Link link = guest(lobby, "hello");
  const auto in = lobby.next(within(kNeverReached));
  ASSERT_TRUE(in);
  EXPECT_EQ(in->message, "hello");
  expect_closed(lobby, outside);
}

std::string framed(const std::string& message) {
  const auto size = message.size();
  return std::string{static_cast<char>(size >> 24U), static_cast<char>(size >> 16U), static_cast<char>(size >> 8U),
                     static_cast<char>(size)} +
         message;
}

INSTANTIATE_TEST_SUITE_P(
    Lobby, StrangerTest,
    ::testing::Values(
        Stranger{
            "Http",
            [](const Lobby&) { return std::string("GET / HTTP/1.1\r\nHost: here\r\n\r\n"); }},  // as a length: 1.2 GB
        Stranger{"HugeLength", [](const Lobby&) { return std::string("\xff\xff\xff\xff", 4); }},
        Stranger{"OverTheLimit",
                 [](const Lobby& lobby) {
                   return framed(lobby.meeting().token + ' ' + std::string(Lobby::kMaxFirst, 'x'));
                 }},
        Stranger{"Nothing", [](const Lobby&) { return framed(""); }},
        Stranger{"WrongToken",
                 [](const Lobby& lobby) { return framed(std::string(lobby.meeting().token.size(), '0') + " hello"); }},
        Stranger{"HalfTheToken",
                 [](const Lobby& lobby) { return framed(lobby.meeting().token.substr(0, 16) + " hello"); }},
        Stranger{"TokenAlone", [](const Lobby& lobby) { return framed(lobby.meeting().token); }},
        Stranger{"LongerToken", [](const Lobby& lobby) { return framed(lobby.meeting().token + "0 hello"); }}),
    [](const auto& each) { return std::string(each.param.name); });

// A silent connection and one that sends single bytes are treated alike: the deadline applies to the whole connection.
TEST(Lobby, ASilentStrangerIsClosedWhenItsTimeIsOver) {
  Lobby lobby(kHere, std::chrono::milliseconds(20));
  const Socket silent = stranger(lobby);
  expect_closed(lobby, silent);
}

TEST(Lobby, ADrippingStrangerIsClosedWhenItsTimeIsOver) {
  Lobby lobby(kHere, std::chrono::milliseconds(20));
  const Socket dripping = stranger(lobby);
  const std::string message = framed(lobby.meeting().token + " a good word, too late");
  ASSERT_TRUE(send_raw(dripping, message.substr(0, 4)));
  std::jthread drip([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && send_raw(dripping, "x")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const Link link = guest(lobby, "hello");
  const auto in = lobby.next(within(kNeverReached));
  ASSERT_TRUE(in);
  EXPECT_EQ(in->message, "hello");
  expect_closed(lobby, dripping);
}

// Twice the allowed number of strangers, then a guest: the guest is accepted, and the oldest strangers are closed.
TEST(Lobby, ACrowdOfSilentStrangersIsBounded) {
  Lobby lobby(kHere, kNeverReached);
  std::vector<Socket> crowd;
  for (std::size_t i = 0; i < 2 * Lobby::kMaxStrangers; ++i) crowd.push_back(stranger(lobby));
  const Link link = guest(lobby, "hello");
  const auto in = lobby.next(within(kNeverReached));
  ASSERT_TRUE(in);
  EXPECT_EQ(in->message, "hello");
  EXPECT_FALSE(lobby.next(Deadline::min()));
  std::size_t open = 0;
  for (const Socket& each : crowd) open += each.is_peer_gone() ? 0 : 1;
  EXPECT_LE(open, Lobby::kMaxStrangers);
}

TEST(Lobby, WaitsNoLongerThanAsked) {
  Lobby lobby(kHere);
  EXPECT_FALSE(lobby.next(Deadline::min()));
  EXPECT_FALSE(lobby.next(within(std::chrono::milliseconds(1))));
}

TEST(Lobby, ListensAtEachAddress) {
  Lobby lobby({"127.0.0.1", "127.0.0.2"});
  Meeting second = lobby.meeting();
  ASSERT_EQ(second.endpoints.size(), 2U);
  second.endpoints.erase(second.endpoints.begin());
  const Link link = reach(second);
  ASSERT_TRUE(link.send(second.token + " hello"));
  EXPECT_TRUE(lobby.next(within(kNeverReached)));
}

TEST(Meeting, IsOneLineOfText) {
  const Meeting meeting{"node7", "abc", {{"10.0.0.7", 40123}, {"192.168.1.7", 40124}}};
  EXPECT_EQ(Meeting::read(meeting.text()), meeting);
  EXPECT_EQ(Meeting::read("").endpoints.size(), 0U);
}

TEST(Meeting, TokensDiffer) { EXPECT_NE(random_token(), random_token()); }

}  // namespace
}  // namespace plimsoll::net

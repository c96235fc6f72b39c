// SPDX-License-Identifier: Apache-2.0
#include "net/link.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

namespace plimsoll::net {
namespace {

constexpr std::size_t kRoom = 1U << 16U;

void send_raw(const Link& link, std::string_view bytes) {
  const std::array parts{std::as_bytes(std::span(bytes))};
  ASSERT_TRUE(link.socket().send(parts));
}

RC_GTEST_PROP(Link, MessagesArriveAsTheyWereSent, (const std::vector<std::string>& messages)) {
  const auto [one, other] = make_link_pair();
  std::jthread sender([&link = one, &messages] {
    for (const std::string& message : messages) link.send(message);
    link.socket().shut_sending();
  });
  for (const std::string& message : messages) RC_ASSERT(other.receive_text(kRoom) == message);
  RC_ASSERT(!other.receive());
}

TEST(Link, LengthsAreInNetworkOrder) {
  const auto [one, other] = make_link_pair();
  send_raw(one, std::string("\0\0\0\3abc", 7));
  EXPECT_EQ(other.receive_text(3), "abc");
}

// The message is longer than a socket's buffer and the reader's first allocation, so both sides loop several times.
TEST(Link, LongMessagesArriveWhole) {
  const auto [one, other] = make_link_pair();
  std::string message(5U << 20U, 'a');
  for (std::size_t i = 0; i < message.size(); i += 1000) message[i] = static_cast<char>('a' + i / 1000 % 26);
  std::jthread sender([&link = one, &message] { link.send(message); });
  EXPECT_EQ(other.receive_text(message.size()), message);
}

TEST(Link, AMessageOverTheLimitEndsTheLink) {
  const auto [one, other] = make_link_pair();
  ASSERT_TRUE(one.send("four"));
  EXPECT_EQ(other.receive(3), std::nullopt);
}

// A peer that announces a gigabyte and sends a few bytes costs the memory of the first piece, not a gigabyte.
TEST(Link, MemoryGrowsWithWhatHasArrived) {
  const auto [one, other] = make_link_pair();
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  send_raw(one, std::string("\x3f\0\0\0abc", 7));
  one.socket().shut_sending();
  EXPECT_EQ(other.receive(), std::nullopt);
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 * 1024);  // KiB
}

// Each byte arrives in time, but the whole message does not.
TEST(Link, DrippingGainsNoTime) {
  const auto [one, other] = make_link_pair();
  std::atomic<bool> over{false};
  std::jthread dripping([&link = one, &over] {
    send_raw(link, std::string("\0\0\x40\0", 4));
    while (!over) {
      send_raw(link, "x");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_EQ(other.receive(kRoom, within(std::chrono::milliseconds(50))), std::nullopt);
  over = true;
}

// The other end does not receive, so the message does not fit into the buffers.
TEST(Link, SendingHasADeadline) {
  const auto [one, other] = make_link_pair();
  EXPECT_FALSE(one.send(std::string(64U << 20U, 'x'), within(std::chrono::milliseconds(20))));
}

TEST(Link, AClosedPeerEndsWhatWaits) {
  auto [one, other] = make_link_pair();
  std::jthread waiting([&link = other] { EXPECT_EQ(link.receive(), std::nullopt); });
  one = Link();
  waiting.join();
  EXPECT_TRUE(other.socket().is_peer_gone());
  EXPECT_FALSE(other.send("too late"));
}

TEST(EndWatch, CallsOnceWhenThePeerIsGoneAndNotBefore) {
  auto [one, other] = make_link_pair();
  std::atomic<int> calls{0};
  {
    const EndWatch early(other, [&calls] { calls += 100; });
  }
  EXPECT_EQ(calls, 0);
  const EndWatch watch(other, [&calls] {
    ++calls;
    calls.notify_all();
  });
  one = Link();
  calls.wait(0);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace plimsoll::net

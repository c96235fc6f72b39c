// SPDX-License-Identifier: Apache-2.0
// When requests of real clients count as sent: requests of the same instant get its time.
#include "serve/arrivals.h"

#include <gtest/gtest.h>

namespace plimsoll::serve {
namespace {

constexpr Nanos kMs = 1'000'000;

class Unheard final : public CallListener {
 public:
  void produced(ClientId, sched::Tok, Nanos) override {}
  void ended(ClientId, const sched::FinishedAttempt&) override {}
  void failed(ClientId, const char*, Nanos) override {}
};

class ArrivalsTest : public ::testing::Test {
 protected:
  // Delivers all requests, so that their answers can end.
  void deliver(Nanos now) {
    sched::ReqId handle = 0;
    while (const auto attempt = arrivals_.send(now)) arrivals_.dispatched(attempt->client, 0, handle++, now);
  }
  void end(ClientId client, std::uint64_t serial, Nanos now) {
    (void)arrivals_.ended({.serial = serial, .client = client, .end = now, .service = {}}, now);
  }
  [[nodiscard]] Nanos sent_at(Nanos now) { return arrivals_.sent(arrivals_.add({}, now)); }

  Unheard listener_;
  Arrivals arrivals_{1, listener_};
};

TEST_F(ArrivalsTest, EveryRequestHasItsOwnTimeUnlessArrivalsAreGathered) {
  EXPECT_EQ(sent_at(100), 100);
  EXPECT_EQ(sent_at(101), 101);
}

// Times in ms. Gaps of up to 10 and 25 in all are allowed: the wave that starts at 100 includes 109 and 118; a request
// after 125 has its own time. Clients that start together are load::kApart after each other, as those of a simulation.
TEST_F(ArrivalsTest, RequestsThatFindAnIdleServerTogetherAreOneInstant) {
  arrivals_.gather(10 * kMs, 25 * kMs);
  EXPECT_EQ(sent_at(100 * kMs), 100 * kMs);
  EXPECT_EQ(sent_at(109 * kMs), 100 * kMs + load::kApart);
  EXPECT_EQ(arrivals_.awaited_until(100 * kMs), 119 * kMs);
  EXPECT_EQ(sent_at(118 * kMs), 100 * kMs + 2 * load::kApart);
  EXPECT_EQ(arrivals_.awaited_until(100 * kMs), 125 * kMs);
  EXPECT_EQ(sent_at(126 * kMs), 126 * kMs);
}

TEST_F(ArrivalsTest, NoRequestIsSentBeforeItHasCome) {
  arrivals_.gather(10 * kMs, 25 * kMs);
  EXPECT_EQ(sent_at(100), 100);
  EXPECT_EQ(sent_at(101), 101);
}

TEST_F(ArrivalsTest, AGapEndsTheInstant) {
  arrivals_.gather(10 * kMs, 100 * kMs);
  EXPECT_EQ(sent_at(100 * kMs), 100 * kMs);
  EXPECT_EQ(sent_at(110 * kMs), 110 * kMs);
}

// Two of three answers end at 500, and their clients know at 503. The next two requests follow these answers; a third
// one does not, however soon it comes.
TEST_F(ArrivalsTest, RequestsThatAnswerAnAnswerTakeItsTime) {
  arrivals_.gather(10 * kMs, 100 * kMs);
  const ClientId first = arrivals_.add({}, 100 * kMs), second = arrivals_.add({}, 101 * kMs);
  (void)arrivals_.add({}, 102 * kMs);
  deliver(102 * kMs);
  end(first, 0, 500 * kMs);
  end(second, 1, 500 * kMs);
  arrivals_.told(503 * kMs);
  EXPECT_EQ(arrivals_.awaited_until(499 * kMs), -1) << "an earlier step is not held up";
  EXPECT_EQ(arrivals_.awaited_until(500 * kMs), 513 * kMs);
  EXPECT_EQ(sent_at(505 * kMs), 500 * kMs);
  EXPECT_EQ(sent_at(506 * kMs), 500 * kMs + load::kApart);
  EXPECT_EQ(arrivals_.awaited_until(500 * kMs), -1) << "no further one is expected";
  EXPECT_EQ(sent_at(507 * kMs), 507 * kMs);
}

// Times in ms. The clients know at 503 of the answers that ended at 500. A request that was received at 501, while the
// server was still writing them, leaves the instant open until 513.
TEST_F(ArrivalsTest, AnEarlyRequestDoesNotCloseTheInstantForTheOthers) {
  arrivals_.gather(10 * kMs, 100 * kMs);
  const ClientId first = arrivals_.add({}, 100 * kMs), second = arrivals_.add({}, 101 * kMs);
  deliver(102 * kMs);
  end(first, 0, 500 * kMs);
  end(second, 1, 500 * kMs);
  arrivals_.told(503 * kMs);
  EXPECT_EQ(sent_at(501 * kMs), 500 * kMs);
  EXPECT_EQ(arrivals_.awaited_until(500 * kMs), 513 * kMs);
  EXPECT_EQ(sent_at(512 * kMs), 500 * kMs + load::kApart);
}

// Times in ms. After a step of 300, requests may follow each other by a tenth of it, and all within the longest time.
TEST_F(ArrivalsTest, ALongStepWaitsLongerForTheNextRequests) {
  arrivals_.gather(10 * kMs, 50 * kMs);
  const ClientId first = arrivals_.add({}, 100 * kMs), second = arrivals_.add({}, 101 * kMs);
  const ClientId third = arrivals_.add({}, 102 * kMs);
  deliver(102 * kMs);
  end(first, 0, 500 * kMs);
  end(second, 1, 500 * kMs);
  end(third, 2, 500 * kMs);
  arrivals_.told(501 * kMs, 300 * kMs);
  EXPECT_EQ(arrivals_.awaited_until(500 * kMs), 531 * kMs);
  EXPECT_EQ(sent_at(530 * kMs), 500 * kMs);
  EXPECT_EQ(arrivals_.awaited_until(500 * kMs), 550 * kMs) << "the longest time";
  EXPECT_EQ(sent_at(549 * kMs), 500 * kMs + load::kApart);
  EXPECT_EQ(sent_at(551 * kMs), 551 * kMs);
}

TEST_F(ArrivalsTest, ThePriorityReachesTheScheduler) {
  (void)arrivals_.add({.priority = -3, .hashes = {}}, 100);
  const auto attempt = arrivals_.send(100);
  ASSERT_TRUE(attempt);
  EXPECT_EQ(attempt->request.priority, -3);
}

}  // namespace
}  // namespace plimsoll::serve

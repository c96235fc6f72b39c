// SPDX-License-Identifier: Apache-2.0
// When requests of real clients count as sent: those of one instant take their time from it.
#include "serve/arrivals.h"

#include <gtest/gtest.h>

namespace plimsoll::serve {
namespace {

class Unheard final : public CallListener {
 public:
  void produced(ClientId, sched::Tok, Nanos) override {}
  void ended(ClientId, const sched::FinishedAttempt&) override {}
  void failed(ClientId, const char*, Nanos) override {}
};

class ArrivalsTest : public ::testing::Test {
 protected:
  // Delivers everything, so that the clients' answers can end.
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

// Gaps of up to 10, 25 in all: the wave of 100 takes in 109 and 118, the one after 125 is another time.
TEST_F(ArrivalsTest, RequestsThatFindAnIdleServerTogetherAreOneInstant) {
  arrivals_.gather(10, 25);
  EXPECT_EQ(sent_at(100), 100);
  EXPECT_EQ(sent_at(109), 100);
  EXPECT_EQ(arrivals_.awaited_until(100), 119);
  EXPECT_EQ(sent_at(118), 100);
  EXPECT_EQ(arrivals_.awaited_until(100), 125);
  EXPECT_EQ(sent_at(126), 126);
}

TEST_F(ArrivalsTest, AGapEndsTheInstant) {
  arrivals_.gather(10, 100);
  EXPECT_EQ(sent_at(100), 100);
  EXPECT_EQ(sent_at(110), 110);
}

// Two of three answers end at 500, their clients know at 503. Two requests answer them; a third has nothing to do with
// them, however soon it comes.
TEST_F(ArrivalsTest, RequestsThatAnswerAnAnswerTakeItsTime) {
  arrivals_.gather(10, 100);
  const ClientId first = arrivals_.add({}, 100), second = arrivals_.add({}, 101);
  (void)arrivals_.add({}, 102);
  deliver(102);
  end(first, 0, 500);
  end(second, 1, 500);
  arrivals_.told(503);
  EXPECT_EQ(arrivals_.awaited_until(499), -1) << "an earlier step is not held up";
  EXPECT_EQ(arrivals_.awaited_until(500), 513);
  EXPECT_EQ(sent_at(505), 500);
  EXPECT_EQ(sent_at(506), 500);
  EXPECT_EQ(arrivals_.awaited_until(500), -1) << "no further one is expected";
  EXPECT_EQ(sent_at(507), 507);
}

}  // namespace
}  // namespace plimsoll::serve

// SPDX-License-Identifier: Apache-2.0
#include "load/clients.h"

#include <gtest/gtest.h>

namespace plimsoll::load {
namespace {

constexpr Nanos kOneSecond = 1'000'000'000;

Scenario requests_of(const LoadSpec& load, std::int64_t requests) {
  Scenario s;
  s.workload.load = load;
  s.workload.lengths = IndependentLengths{FixedLength{30}, FixedLength{12}};
  s.workload.requests = requests;
  return s;
}

/// Clients whose requests the test serves itself.
class Served {
 public:
  explicit Served(const Scenario& scenario, const FrontEnd& front_end = {})
      : scenario_(scenario),
        measurements_(scenario.slo, scenario.warmup, false),
        clients({scenario_, 0, options_, measurements_}, front_end) {}

  /// Delivers the next attempt to a replica, which gives it the handle `id`.
  Attempt dispatch(Nanos now, std::int32_t replica, sched::ReqId id) {
    const std::optional<Attempt> attempt = clients.send(now);
    EXPECT_TRUE(attempt.has_value());
    clients.dispatched(attempt->client, replica, id, now);
    return *attempt;
  }
  bool end(const Attempt& attempt, sched::Outcome outcome, Nanos now, std::uint16_t http = 200) {
    return clients.ended({.serial = attempt.request.serial,
                          .client = attempt.client,
                          .outcome = outcome,
                          .http = http,
                          .input = attempt.request.input,
                          .output = attempt.request.output,
                          .generated = outcome == sched::Outcome::completed ? attempt.request.output : 0,
                          .sent = attempt.request.sent,
                          .first_token = now,
                          .service = {}},
                         now);
  }
  sched::PointMetrics metrics() {
    measurements_.end_run({.start_s = 0,
                           .end_s = 1e-9 * static_cast<double>(clients.last_end()),
                           .in_system = clients.in_system_integral(),
                           .queue = clients.queue_integral()},
                          {});
    return measurements_.metrics();
  }

 private:
  Scenario scenario_;
  sched::RunOptions options_;
  sched::MetricsCollector measurements_;

 public:
  Clients clients;
};

// The users of two replicas reach the fleet two at a time; all requests of a burst arrive together.
TEST(Clients, UsersOfOneInstantComeApart) {
  Scenario s = requests_of(ClosedLoop{5, Seconds{0}}, 10);
  s.replicas = 2;
  Served users(s);
  const auto dispatched = [](Served& run) {
    std::vector<Nanos> times;
    for (sched::ReqId id = 0; id < 5; ++id) {
      times.push_back(run.clients.next_send());
      EXPECT_EQ(run.dispatch(times.back(), 0, id).request.sent, 0);
    }
    return times;
  };
  EXPECT_EQ(dispatched(users), (std::vector<Nanos>{0, 0, kApart, kApart, 2 * kApart}));
  Served burst(requests_of(Burst{5}, 0));
  EXPECT_EQ(dispatched(burst), (std::vector<Nanos>{0, 0, 0, 0, 0}));
}

TEST(Clients, LatencyCountsFromTheFirstAttempt) {
  Scenario s = requests_of(Burst{1}, 0);
  s.limits.retries = 1;
  Served run(s);
  const Attempt first = run.dispatch(0, 0, 5);
  EXPECT_TRUE(run.end(first, sched::Outcome::rejected, 2 * kOneSecond, 429));
  EXPECT_EQ(run.clients.next_send(), 3 * kOneSecond);  // one second after the first failure
  const Attempt second = run.dispatch(3 * kOneSecond, 0, 5);
  EXPECT_NE(second.request.serial, first.request.serial);
  EXPECT_EQ(second.request.sent, 0);
  EXPECT_TRUE(run.end(second, sched::Outcome::completed, 5 * kOneSecond));
  EXPECT_TRUE(run.clients.done());
  EXPECT_EQ(run.metrics().latency.mean, 5);
}

// Pauses of 1, 2, 4, 8 and 16 s, then of 20 s each; the last failure is final.
TEST(Clients, PausesBetweenAttemptsDoubleUpTo20Seconds) {
  Scenario s = requests_of(Burst{1}, 0);
  s.limits.retries = 7;
  Served run(s);
  Nanos now = 0;
  for (const Nanos pause : {1, 2, 4, 8, 16, 20, 20}) {
    EXPECT_TRUE(run.end(run.dispatch(now, 0, 1), sched::Outcome::rejected, now, 503));
    EXPECT_EQ(run.clients.next_send(), now + pause * kOneSecond);
    EXPECT_EQ(run.clients.finished(), 0);
    now = run.clients.next_send();
  }
  EXPECT_TRUE(run.end(run.dispatch(now, 0, 1), sched::Outcome::rejected, now, 503));
  EXPECT_EQ(run.clients.next_send(), sched::kNever);
  EXPECT_EQ(run.clients.finished(), 1);
  EXPECT_EQ(run.clients.attempts(), 8);
  EXPECT_EQ(run.metrics().requests_rejected, 1);
}

TEST(Clients, AUserSendsAgainAfterThinking) {
  Served run(requests_of(ClosedLoop{1, Seconds(2)}, 2));
  EXPECT_EQ(run.clients.next_send(), 0);
  const Attempt first = run.dispatch(0, 0, 1);
  EXPECT_EQ(run.clients.next_send(), sched::kNever);  // the client waits for its answer
  run.end(first, sched::Outcome::completed, 4 * kOneSecond);
  EXPECT_EQ(run.clients.next_send(), 6 * kOneSecond);
  run.end(run.dispatch(6 * kOneSecond, 0, 1), sched::Outcome::completed, 7 * kOneSecond);
  EXPECT_TRUE(run.clients.done());  // two requests were wanted, so the client need not think again
  EXPECT_EQ(run.clients.next_send(), sched::kNever);
}

TEST(Clients, AnAnswerAfterTheDeadlineIsIgnored) {
  Scenario s = requests_of(Burst{1}, 0);
  s.limits.timeout = Seconds(3);
  Served run(s);
  const Attempt attempt = run.dispatch(0, 2, 9);
  EXPECT_EQ(run.clients.next_timeout(), 3 * kOneSecond);
  EXPECT_FALSE(run.clients.time_out(3 * kOneSecond - 1));
  const std::optional<TimedOut> out = run.clients.time_out(3 * kOneSecond);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->tokens, 42);  // a prompt of 30 and a cap of 12
  EXPECT_EQ(out->replica, 2);
  EXPECT_EQ(out->id, 9U);
  EXPECT_EQ(out->serial, attempt.request.serial);
  EXPECT_FALSE(run.end(attempt, sched::Outcome::completed, 4 * kOneSecond));
  EXPECT_EQ(run.clients.finished(), 1);
  EXPECT_EQ(run.metrics().requests_timed_out, 1);
}

TEST(Clients, ALostReplicaFailsWhatItHad) {
  Scenario scenario = requests_of(Burst{2}, 0);
  scenario.life.emplace();
  Served run(scenario);
  run.dispatch(0, 0, 1);
  const Attempt other = run.dispatch(0, 1, 1);
  run.clients.lose(0, kOneSecond);
  EXPECT_EQ(run.clients.finished(), 1);
  EXPECT_TRUE(run.end(other, sched::Outcome::completed, 2 * kOneSecond));
  const sched::PointMetrics m = run.metrics();
  EXPECT_EQ(m.requests_rejected, 1);
  EXPECT_EQ(m.rejections.at("the replica failed"), 1);
  EXPECT_EQ(m.requests_completed, 1);
}

// Each attempt takes 10 ms at the front end, one after the other, and then a delay of 1 ms.
TEST(Clients, TheFrontEndTakesAttemptsOneAfterTheOther) {
  Served run(requests_of(Burst{3}, 0), {.intake = Seconds(0.010), .delay = Seconds(0.001)});
  for (const Nanos milliseconds : {11, 21, 31}) {
    EXPECT_EQ(run.clients.next_send(), milliseconds * 1'000'000);
    run.dispatch(run.clients.next_send(), 0, 1);
  }
  EXPECT_EQ(run.clients.next_send(), sched::kNever);
}

// Sending the 100 tokens of the first 0.2 s takes two processes 0.5 s each. Tokens that are put out after a request was
// sent do not delay it, and the 10 tokens after 0.2 s have long been sent at 1 s.
TEST(FrontEndQueue, AttemptsWaitForTheTokensBeforeThem) {
  std::int64_t tokens = 100;
  const FrontEnd front_end{.delay = Seconds(0.001), .stream = Seconds(0.010), .tokens = [&](Nanos) { return tokens; }};
  FrontEndQueue queue(front_end, 2);
  EXPECT_TRUE(queue.streams());
  EXPECT_EQ(queue.enter(kOneSecond / 5), 501'000'000);
  tokens = 110;
  EXPECT_EQ(queue.delivery(kOneSecond / 4), 501'000'000);
  EXPECT_EQ(queue.enter(kOneSecond), 1'001'000'000);
}

// The second request of a user queues behind 50 ms of tokens that were put out before it was sent, and behind kApart of
// the first request.
TEST(Clients, RequestsEnterAStreamingFrontEndWhenTheyAreSent) {
  std::int64_t tokens = 0;
  Served run(requests_of(ClosedLoop{1, Seconds(0)}, 2),
             {.stream = Seconds(0.010), .tokens = [&](Nanos) { return tokens; }});
  EXPECT_EQ(run.clients.next_send(), 0);
  const Attempt first = run.dispatch(0, 0, 1);
  tokens = 105;  // one second of sending, and five tokens more
  EXPECT_TRUE(run.end(first, sched::Outcome::completed, kOneSecond));
  EXPECT_EQ(run.clients.next_send(), kOneSecond);
  EXPECT_FALSE(run.clients.send(kOneSecond));  // it has entered
  tokens = 1000;
  EXPECT_EQ(run.clients.next_send(), kOneSecond + kOneSecond / 20 + kApart);
  EXPECT_FALSE(run.clients.done());
  run.dispatch(run.clients.next_send(), 0, 2);
  EXPECT_EQ(run.clients.next_send(), sched::kNever);
}

TEST(Clients, NothingIsSentAfterTheDuration) {
  Scenario s = requests_of(ConstantRate{1}, 0);
  s.workload.duration = Seconds(2.5);
  Served run(s);
  run.dispatch(kOneSecond, 0, 1);
  run.dispatch(2 * kOneSecond, 0, 2);
  EXPECT_EQ(run.clients.next_send(), sched::kNever);
  EXPECT_EQ(run.clients.last_sent(), 2 * kOneSecond);
}

}  // namespace
}  // namespace plimsoll::load

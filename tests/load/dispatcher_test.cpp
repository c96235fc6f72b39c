// SPDX-License-Identifier: Apache-2.0
#include "load/dispatcher.h"

#include <gtest/gtest.h>

#include "tests/sim/scenarios.h"

namespace plimsoll::load {
namespace {

constexpr Nanos kNanosPerSecond = 1'000'000'000;

Scenario burst_of(std::int32_t requests, std::int32_t replicas, sched::RouterKind router) {
  Scenario s = sim::testing::base_scenario();
  s.workload.load = Burst{requests};
  s.workload.lengths = IndependentLengths{FixedLength{16}, FixedLength{4}};
  s.workload.requests = requests;
  s.replicas = replicas;
  s.router = router;
  return s;
}

struct Fixture {
  explicit Fixture(const Scenario& s, const Probes& probes = {})
      : out(s.slo, s.warmup, false),
        dispatcher({.scenario = s, .index = 0, .options = options, .out = out}, {}, probes) {}
  sched::RunOptions options;
  sched::MetricsCollector out;
  Dispatcher dispatcher;
};

sched::FinishedAttempt finished(const RoutedAttempt& attempt, Nanos end) {
  sched::FinishedAttempt ended;
  ended.serial = attempt.request.serial;
  ended.client = attempt.client;
  ended.input = attempt.request.input;
  ended.output = attempt.request.output;
  ended.max_new = attempt.request.max_new;
  ended.end = end;
  return ended;
}

TEST(Dispatcher, RoutesAttemptsInTheOrderOfSending) {
  const Scenario s = burst_of(4, 2, sched::RouterKind::round_robin);
  Fixture f(s);
  EXPECT_EQ(f.dispatcher.next_event(), 0);
  std::vector<std::size_t> replicas;
  std::vector<std::uint64_t> serials;
  while (const auto attempt = f.dispatcher.next(0)) {
    replicas.push_back(attempt->replica);
    serials.push_back(attempt->request.serial);
    f.dispatcher.delivered(*attempt, 0, 0);
  }
  EXPECT_EQ(serials, (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(replicas[0], replicas[2]);
  EXPECT_NE(replicas[0], replicas[1]);
  EXPECT_EQ(f.dispatcher.next_event(), sched::kNever);
  EXPECT_FALSE(f.dispatcher.done()) << "four answers are awaited";
}

// An attempt is outstanding from the moment it is routed until it ends: the replica that answers first gets the next
// attempt.
TEST(Dispatcher, CountsWhatIsOutstanding) {
  Scenario s = burst_of(3, 2, sched::RouterKind::least_outstanding);
  Fixture f(s);
  const auto first = f.dispatcher.next(0);
  f.dispatcher.delivered(*first, 0, 0);
  const auto second = f.dispatcher.next(0);
  f.dispatcher.delivered(*second, 0, 0);
  ASSERT_NE(first->replica, second->replica);
  std::vector<sched::FinishedAttempt> ended{finished(*second, kNanosPerSecond)};
  f.dispatcher.collect(second->replica, ended);
  EXPECT_TRUE(ended.empty());
  EXPECT_EQ(f.dispatcher.next(kNanosPerSecond)->replica, second->replica);
}

// A time-out states the handle that the replica assigned. An attempt that was refused cannot time out.
TEST(Dispatcher, NamesTheHandleOfAnAttemptThatTimesOut) {
  Scenario s = burst_of(2, 1, sched::RouterKind::round_robin);
  s.limits.timeout = Seconds(1);
  Fixture f(s);
  f.dispatcher.delivered(*f.dispatcher.next(0), std::nullopt, 0);
  const auto second = f.dispatcher.next(0);
  f.dispatcher.delivered(*second, 17, 0);
  EXPECT_EQ(f.dispatcher.next_event(), kNanosPerSecond);
  EXPECT_FALSE(f.dispatcher.time_out(kNanosPerSecond - 1).has_value());
  const auto out = f.dispatcher.time_out(kNanosPerSecond);
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->id, 17U);
  EXPECT_EQ(out->serial, second->request.serial);
  EXPECT_FALSE(f.dispatcher.time_out(kNanosPerSecond).has_value());
}

// The KV use is only updated for a router that reads it, before each of its choices.
TEST(Dispatcher, BringsTheKvUseUpToDateForTheRouterThatAsks) {
  for (const auto& [router, updates] : {std::pair(sched::RouterKind::least_kv, 3), {sched::RouterKind::prefix, 0}}) {
    const Scenario s = burst_of(3, 2, router);
    int asked = 0;
    Fixture f(s, {.loads =
                      [&asked](Nanos, std::vector<sched::ReplicaLoad>& loads) {
                        ++asked;
                        loads[0].kv_blocks_in_use = 10;
                        loads[1].kv_blocks_in_use = 5;
                      },
                  .cached = {}});
    while (const auto attempt = f.dispatcher.next(0)) {
      if (updates > 0) {
        EXPECT_EQ(attempt->replica, 1U) << "the one with less in use";
      }
      f.dispatcher.delivered(*attempt, 0, 0);
    }
    EXPECT_EQ(asked, updates);
  }
}

// vLLM's coordinator reports every 100 ms: a decision sees the state at the last full tenth of a second before it.
TEST(Dispatcher, ReportsAreAsOldAsTheirPeriodSays) {
  Scenario s = burst_of(4, 2, sched::RouterKind::vllm_dp);
  std::vector<Nanos> looks;
  Fixture f(s, {.loads =
                    [&looks](Nanos now, std::vector<sched::ReplicaLoad>& loads) {
                      looks.push_back(now);
                      loads[0].running = 3;
                    },
                .cached = {}});
  constexpr Nanos kMs = 1'000'000;
  for (const Nanos now : {Nanos{0}, 30 * kMs, 100 * kMs, 100 * kMs + 1, 199 * kMs, 450 * kMs}) f.dispatcher.look(now);
  EXPECT_EQ(looks, (std::vector<Nanos>{100 * kMs, 400 * kMs}));
  std::vector<std::size_t> replicas;
  while (const auto attempt = f.dispatcher.next(450 * kMs)) {
    replicas.push_back(attempt->replica);
    f.dispatcher.delivered(*attempt, 0, 450 * kMs);
  }
  // 4 waiting + running: 3 and 0, then 3 and 4, 7 and 4, 7 and 8.
  EXPECT_EQ(replicas, (std::vector<std::size_t>{1, 0, 1, 0}));
}

// Dynamo's router sends nothing while every replica has more than four steps of prompts to compute: 4 x 100 tokens.
// The request that came first is then sent first, to the replica that has room.
TEST(Dispatcher, HoldsRequestsBackWhileEveryReplicaIsFullOfPrompts) {
  Scenario s = burst_of(3, 2, sched::RouterKind::dynamo);
  s.policy.policy = sched::PolicyKind::vllm_v1;
  s.policy.step_token_budget = 100;
  std::int64_t first = 401, second = 401;
  Fixture f(s, {.loads =
                    [&](Nanos, std::vector<sched::ReplicaLoad>& loads) {
                      loads[0].prefill_tokens = first;
                      loads[1].prefill_tokens = second;
                    },
                .cached = [](std::size_t, std::span<const std::uint64_t>, sched::Tok) { return 0; }});
  EXPECT_FALSE(f.dispatcher.next(0).has_value());
  EXPECT_EQ(f.dispatcher.next_event(), sched::kNever) << "an event of a replica must come first";
  EXPECT_EQ(f.dispatcher.next_arrival(), 0);
  second = 400;
  const auto sent = f.dispatcher.next(5);
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->request.serial, 0U);
  EXPECT_EQ(sent->replica, 1U);
  second = 416;
  EXPECT_FALSE(f.dispatcher.next(5).has_value());
  first = second = 0;
  EXPECT_EQ(f.dispatcher.next(6)->request.serial, 1U);
  EXPECT_EQ(f.dispatcher.next(6)->request.serial, 2U);
  EXPECT_EQ(f.dispatcher.next_arrival(), sched::kNever);
}

// When the only replica fails, its requests fail, and so do those sent before it serves again.
TEST(Dispatcher, RefusesWhileNoReplicaServes) {
  Scenario s = burst_of(1, 1, sched::RouterKind::round_robin);
  s.workload.load = ConstantRate{10};
  s.workload.requests = 1000;
  s.life = LifeConfig{.initial = 1,
                      .slots_per_instance = 1,
                      .autoscaling = {},
                      .failures = {.mean_between = kNanosPerSecond, .restart = 1000 * kNanosPerSecond}};
  Fixture f(s);
  std::optional<FleetLife::Event> event;
  while (!(event = f.dispatcher.change(f.dispatcher.next_event())))
    f.dispatcher.delivered(*f.dispatcher.next(f.dispatcher.next_event()), 0, 0);
  EXPECT_EQ(event->change, FleetLife::Change::dies);
  EXPECT_FALSE(f.dispatcher.next(101 * kNanosPerSecond).has_value()) << "all were refused";
  EXPECT_TRUE(f.dispatcher.done());
}

}  // namespace
}  // namespace plimsoll::load

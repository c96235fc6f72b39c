// SPDX-License-Identifier: Apache-2.0
// Replicas that come and go, in fleets simple enough to calculate: one request at a time, each of one second.
#include "load/fleet_life.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::sim {
namespace {

constexpr Nanos kSecond = 1'000'000'000;

// A request takes 0.9 s for its prompt and 0.1 s for its only token.
load::Scenario one_second_servers(double rate, std::int64_t requests) {
  load::Scenario s = testing::base_scenario();
  s.engine = testing::constant_engine(0.9, 0.1);
  s.policy.policy = sched::PolicyKind::none;
  s.workload.load = load::ConstantRate{rate};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{16}, load::FixedLength{1}};
  s.workload.requests = requests;
  s.router = sched::RouterKind::least_outstanding;
  return s;
}

load::Scenario scaled_fleet(double rate, std::int64_t requests, double target, Nanos start_up) {
  load::Scenario s = one_second_servers(rate, requests);
  s.replicas = 5;
  sched::AutoscalingConfig scaling;
  scaling.max = 5;
  scaling.target = target;
  scaling.start_up = start_up;
  s.life = load::LifeConfig{.initial = 1, .slots_per_instance = 1, .autoscaling = scaling, .failures = {}};
  return s;
}

// 2 requests/s are 120 per minute. With a target of 40, three replicas are wanted after three points, at 180 s, and two
// more serve from 240 s on. One replica is paid for from the start, two from 180 s on.
TEST(FleetLife, ThreePointsThenStartUpThenService) {
  const sched::PointMetrics m = simulate(scaled_fleet(2, 1200, 40, 60 * kSecond)).metrics;
  EXPECT_EQ(m.requests_completed, 1200);
  EXPECT_EQ(m.replica_starts, 2);
  EXPECT_NEAR(m.replica_s.value(), m.duration_s + 2 * (m.duration_s - 180), 1e-6);
  EXPECT_EQ(m.instance_s, m.replica_s);
  // 240 s at 1/s leave 240 of 480 requests waiting; the last came at 240 s. Three servers then gain 1/s on arrivals.
  EXPECT_GT(m.latency.p99.value(), 60);
}

// Two replicas per instance: the second replica uses the first one's instance, and the third needs another.
TEST(FleetLife, WholeInstancesArePaid) {
  load::Scenario s = scaled_fleet(2, 1200, 40, 60 * kSecond);
  s.life->slots_per_instance = 2;  // slots 0 1 | 2 3 | 4
  const sched::PointMetrics m = simulate(s).metrics;
  EXPECT_NEAR(m.instance_s.value(), m.duration_s + (m.duration_s - 180), 1e-6);
}

// 120 per minute for 10 minutes, then 12: no draining replica loses a request, and the fleet is smaller at the end.
TEST(FleetLife, AScaleInDrains) {
  load::Scenario s = scaled_fleet(2, 1500, 40, 0);
  auto trace = std::make_shared<traces::Trace>();
  for (int i = 0; i < 1200; ++i)
    trace->records.push_back({.arrival = i * kSecond / 2, .input_tokens = 16, .output_tokens = 1});
  for (int i = 0; i < 600; ++i)
    trace->records.push_back({.arrival = 600 * kSecond + i * 5 * kSecond, .input_tokens = 16, .output_tokens = 1});
  s.workload.load = load::TraceReplay{trace, 1.0};
  s.workload.lengths = load::TracePairs{trace};
  s.workload.requests = 0;
  const sched::PointMetrics m = simulate(s).metrics;
  EXPECT_EQ(m.requests_completed, 1800);
  EXPECT_EQ(m.requests_rejected, 0);
  EXPECT_EQ(m.replica_starts, 2);
  // Three replicas serve at 600 s. The fifteenth quiet point is at 1500 s: one replica is left for the other 2100 s.
  EXPECT_NEAR(m.replica_s.value(), 180 + 3 * (1500 - 180) + (m.duration_s - 1500), 70);
}

// The same run as rows: one replica runs from the start; two more start at 180 s and serve from 240 s. The last row is
// the end of the run.
TEST(FleetLife, RowsTellWhenReplicasStartAndServe) {
  const RunResult run = simulate(scaled_fleet(2, 1200, 40, 60 * kSecond));
  ASSERT_EQ(run.fleet.size(), 4U);
  const auto expect = [&run](std::size_t i, Nanos time, std::int32_t starting, std::int32_t serving) {
    EXPECT_EQ(run.fleet[i].time, time);
    EXPECT_EQ(run.fleet[i].starting, starting);
    EXPECT_EQ(run.fleet[i].serving, serving);
    EXPECT_EQ(run.fleet[i].instances, starting + serving);
    EXPECT_EQ(run.fleet[i].draining + run.fleet[i].failed, 0);
  };
  expect(0, 0, 0, 1);
  expect(1, 180 * kSecond, 2, 1);
  expect(2, 240 * kSecond, 0, 3);
  expect(3, std::llround(run.metrics.duration_s * 1e9), 0, 3);
  EXPECT_TRUE(simulate(testing::base_scenario()).fleet.empty());
}

// A fleet life without events changes nothing.
TEST(FleetLife, AFleetThatStaysIsAFixedOne) {
  load::Scenario s = testing::base_scenario();
  s.replicas = 3;
  sched::PointMetrics fixed = simulate(s).metrics;
  s.life = load::LifeConfig{.initial = 3, .slots_per_instance = 1, .autoscaling = {}, .failures = {}};
  sched::PointMetrics lives = simulate(s).metrics;
  EXPECT_NEAR(lives.replica_s.value(), 3 * lives.duration_s, 1e-6);
  lives.replica_s = lives.instance_s = lives.replica_starts = lives.replica_failures = std::nullopt;
  lives.kv_used_mean = fixed.kv_used_mean;  // equal except for the last bit
  lives.kv_wasted_mean = fixed.kv_wasted_mean;
  EXPECT_EQ(lives, fixed);
}

// One replica lives 10 minutes on average and takes 5 to restart, so it is absent a third of the time. A third of the
// requests is refused, plus those that are lost when it fails: half a second's worth per life. With 40 runs of about 22
// lives each, the standard error of the fraction is about 0.01.
TEST(FleetLife, FailuresRefuseWhatTheyShould) {
  load::Scenario s = one_second_servers(0.5, 10'000);
  s.replications = 40;
  s.life = load::LifeConfig{.initial = 1,
                            .slots_per_instance = 1,
                            .autoscaling = {},
                            .failures = {.mean_between = 600 * kSecond, .restart = 300 * kSecond}};
  const sched::PointMetrics m = simulate(s).metrics;
  EXPECT_EQ(m.requests_completed + m.requests_rejected, 400'000);
  EXPECT_NEAR(static_cast<double>(m.requests_rejected) / 400'000, 1.0 / 3, 0.04);
  EXPECT_NEAR(m.replica_failures.value(), 20'000.0 / 900, 2);
}

// Four replicas together fail every 150 s, and a run must last three settling times, long enough for two failures. If
// failures remove less than a hundredth of the fleet, a run need not contain any.
TEST(FleetLife, FrequentFailuresMustBeSeen) {
  const load::LifeConfig often{
      .initial = 4, .autoscaling = {}, .failures = {.mean_between = 600 * kSecond, .restart = 30 * kSecond}};
  EXPECT_EQ(load::settling_time(often), 100 * kSecond);
  const load::LifeConfig rarely{
      .initial = 4, .autoscaling = {}, .failures = {.mean_between = 86'400 * kSecond, .restart = 300 * kSecond}};
  EXPECT_EQ(load::settling_time(rarely), 300 * kSecond);
}

// Clients that retry are answered by the other replicas.
TEST(FleetLife, RetriesSurviveAFailure) {
  load::Scenario s = one_second_servers(1, 5000);
  s.replicas = 4;
  s.limits.retries = 20;
  s.life = load::LifeConfig{.initial = 4,
                            .slots_per_instance = 1,
                            .autoscaling = {},
                            .failures = {.mean_between = 300 * kSecond, .restart = 30 * kSecond}};
  const sched::PointMetrics m = simulate(s).metrics;
  EXPECT_EQ(m.requests_completed, 5000);
  EXPECT_GT(m.replica_failures.value(), 20);
}

// The queue grows; clients give up after 1.5 s and try again. A row describes only the last attempt, so nothing in it
// may precede the dispatch of that attempt.
TEST(FleetLife, ARetriedRequestsRowTellsOfItsLastAttempt) {
  load::Scenario s = one_second_servers(3, 300);
  s.policy.policy = sched::PolicyKind::vllm_v1;
  s.policy.max_running = 2;
  s.workload.lengths = load::IndependentLengths{load::FixedLength{16}, load::FixedLength{5}};  // 1.3 s alone
  s.replicas = 2;
  s.limits = {.timeout = Seconds(1.5), .cancel_on_timeout = true, .retries = 2};
  s.life = load::LifeConfig{.initial = 2,
                            .slots_per_instance = 1,
                            .autoscaling = {},
                            .failures = {.mean_between = 5 * kSecond, .restart = 2 * kSecond}};
  RunOptions options;
  options.keep_requests = true;
  const RunResult run = simulate(s, options);
  EXPECT_GT(run.metrics.requests_timed_out, 0);
  EXPECT_GT(run.metrics.requests_completed, 0);
  for (const RequestRow& row : run.requests) {
    EXPECT_LE(row.arrival, row.dispatched);
    if (row.first_token >= 0) {
      EXPECT_LE(row.dispatched, row.first_token);
    }
    EXPECT_LE(row.dispatched, row.end);
    EXPECT_EQ(row.code[0] != 0, row.outcome == sched::Outcome::rejected) << row.code;
  }
}

// One request per minute waits for a second one, on a replica that fails every two minutes on average. If it fails
// while its first batch gathers, the waiting request is lost: batches of the next life must contain only live requests.
TEST(FleetLife, RequestsLostWhileABatchGathersTakeNoPlaceLater) {
  load::Scenario s = one_second_servers(1.0 / 60, 500);
  s.engine = testing::constant_engine(0.9e-3, 0.1e-3);  // short steps, so that no replica fails within a batch
  s.policy.policy = sched::PolicyKind::dynamic;
  s.policy.batch_size = 2;
  s.policy.max_batch_delay = 36'000 * kSecond;
  s.life = load::LifeConfig{.initial = 1,
                            .slots_per_instance = 1,
                            .autoscaling = {},
                            .failures = {.mean_between = 120 * kSecond, .restart = kSecond}};
  RunOptions options;
  options.keep_steps = true;
  const RunResult run = simulate(s, options);
  std::int64_t rows = 0;
  for (const StepRow& step : run.steps) rows += step.prefill_rows;
  EXPECT_GT(run.metrics.requests_rejected, 50);
  EXPECT_GT(run.metrics.requests_completed, 50);
  EXPECT_EQ(rows, run.metrics.requests_completed);
}

// Leaps and steps agree even if replicas fail in the middle of a leap.
TEST(FleetLife, LeapsAndStepsAgree) {
  load::Scenario s = testing::base_scenario();
  s.replicas = 3;
  s.workload.requests = 400;
  s.limits.retries = 3;
  sched::AutoscalingConfig scaling;
  scaling.min = 1;
  scaling.max = 3;
  scaling.metric = sched::ScalingMetric::concurrency;
  scaling.target = 8;
  scaling.period = 2 * kSecond;
  scaling.in_time = 6 * kSecond;
  scaling.out_cooldown = scaling.in_cooldown = 2 * kSecond;
  scaling.start_up = 3 * kSecond;
  s.life = load::LifeConfig{.initial = 1,
                            .slots_per_instance = 1,
                            .autoscaling = scaling,
                            .failures = {.mean_between = 20 * kSecond, .restart = 5 * kSecond}};
  const sched::PointMetrics leaps = simulate(s).metrics;
  s.stepwise = true;
  const sched::PointMetrics steps = simulate(s).metrics;
  EXPECT_EQ(leaps.requests_completed, steps.requests_completed);
  EXPECT_GT(leaps.replica_failures.value(), 0);
  EXPECT_NEAR(leaps.latency.mean.value(), steps.latency.mean.value(), 1e-6 * steps.latency.mean.value());
  EXPECT_NEAR(leaps.replica_s.value(), steps.replica_s.value(), 1e-6 * steps.replica_s.value());
}

}  // namespace
}  // namespace plimsoll::sim

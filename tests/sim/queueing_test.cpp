// SPDX-License-Identifier: Apache-2.0
// Policy `none` with a constant-cost engine is a single server: its waiting times must agree with the closed forms.
#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::sim {
namespace {

load::Scenario single_server(double rate, load::LengthMarginal output) {
  load::Scenario s = testing::base_scenario();
  s.engine = testing::constant_engine(0.010, 0.010);
  s.policy.policy = sched::PolicyKind::none;
  s.workload.load = load::Poisson{rate};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{16}, output};
  s.workload.requests = 20000;
  s.replications = 8;
  s.warmup = Seconds(200);
  return s;
}

// Checks the mean waiting time of M/G/1 by Pollaczek-Khinchine: W = lambda E[S^2] / (2 (1 - rho)).
void expect_wait(const load::Scenario& s, double rate, double mean, double second_moment) {
  const sched::PointMetrics m = simulate(s).metrics;
  const double rho = rate * mean;
  const double latency = mean + rate * second_moment / (2 * (1 - rho));
  ASSERT_TRUE(m.latency.mean && m.latency_mean_ci95_s);
  EXPECT_EQ(m.steady.verdict, sched::Steadiness::stable);
  EXPECT_NEAR(*m.latency.mean, latency, 1.5 * *m.latency_mean_ci95_s) << "rho " << rho;
  EXPECT_LT(*m.latency_mean_ci95_s, 0.12 * latency) << "the interval says something";
}

// M/D/1: every request takes 10 ms + 24 x 10 ms = 250 ms.
TEST(Queueing, FixedLengthsAreAnMD1) {
  for (const double rho : {0.3, 0.6, 0.8}) {
    const double rate = rho / 0.25;
    expect_wait(single_server(rate, load::FixedLength{24}), rate, 0.25, 0.25 * 0.25);
  }
}

// M/G/1 with geometric lengths O of mean 24 on {1, 2, …}: Var = (1 - p)/p^2 with p = 1/24; S = 10 ms (1 + O).
TEST(Queueing, GeometricLengthsAreAnMG1) {
  const double p = 1.0 / 24, variance = (1 - p) / (p * p);
  const double mean = 0.25, second = 1e-4 * variance + mean * mean;
  for (const double rho : {0.3, 0.7}) {
    const double rate = rho / mean;
    expect_wait(single_server(rate, load::LengthDistribution{load::LengthFamily::geometric, 24, 1, 1, 0}), rate, mean,
                second);
  }
}

// 10 requests of 4 x 10 ms, one after another. With 500 ms in front of the scheduler each takes 540 ms, and its first
// token comes after 510 ms. The server is idle meanwhile, and the causes of the latency still add up to it.
TEST(Queueing, AFrontEndDelaysAndOccupiesNothing) {
  load::Scenario s = testing::base_scenario();
  auto engine = testing::constant_engine(0, 0.01);
  engine->front_end = Seconds(0.5);
  s.engine = engine;
  s.workload.load = load::ClosedLoop{1, Seconds(0)};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{8}, load::FixedLength{4}};
  s.workload.requests = 10;
  const sched::PointMetrics one = simulate(s).metrics;
  EXPECT_NEAR(*one.latency.mean, 0.54, 1e-9);
  EXPECT_NEAR(*one.ttft.mean, 0.51, 1e-9);
  EXPECT_NEAR(one.duration_s, 5.4, 1e-9);
  EXPECT_NEAR(one.time_weights_s + one.time_kv_s + one.time_compute_s + one.time_allreduce_s + one.time_host_s +
                  one.time_queue_s + one.time_preempt_s + one.time_other_s,
              0.54, 1e-9);
  s.workload.load = load::ConstantRate{20};  // 50 ms apart, 40 ms of service, so no request waits
  const sched::PointMetrics open = simulate(s).metrics;
  EXPECT_NEAR(*open.latency.p90, 0.54, 1e-9);
  EXPECT_NEAR(open.batch_mean, 1, 1e-9);
}

// The engine's own 500 ms, and 300 ms of the front end that the scenario states: 40 + 800 ms; 540 ms without it.
TEST(Queueing, TheStatedFrontEndComesInFrontOfTheEngines) {
  load::Scenario s = testing::base_scenario();
  auto engine = testing::constant_engine(0, 0.01);
  engine->front_end = Seconds(0.5);
  engine->front_ends[model::FrontEnd::dynamo] = {Seconds(0.2), Seconds(0.1)};
  s.engine = engine;
  s.workload.load = load::ClosedLoop{1, Seconds(0)};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{8}, load::FixedLength{4}};
  s.workload.requests = 10;
  EXPECT_NEAR(*simulate(s).metrics.latency.mean, 0.54, 1e-9);
  s.front_end = model::FrontEnd::dynamo;
  EXPECT_NEAR(*simulate(s).metrics.latency.mean, 0.84, 1e-9);
}

// Four users send requests of 40 ms of service at once; these reach the scheduler 100, 200, 300 and 400 ms later. None
// waits for another one's step, so latencies are 140, 240, 340 and 440 ms. After that the intake is the bottleneck:
// each request has a latency of 400 ms, and 10 requests per second complete.
TEST(Queueing, AnIntakeTakesOneRequestAfterTheOther) {
  load::Scenario s = testing::base_scenario();
  auto engine = testing::constant_engine(0, 0.01);
  engine->intake = Seconds(0.1);
  s.engine = engine;
  s.workload.load = load::ClosedLoop{4, Seconds(0)};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{8}, load::FixedLength{4}};
  s.workload.requests = 4;
  EXPECT_NEAR(*simulate(s).metrics.latency.mean, (0.14 + 0.24 + 0.34 + 0.44) / 4, 1e-9);
  s.workload.requests = 400;
  EXPECT_NEAR(simulate(s).metrics.duration_s, 40.04, 1e-6);
  s.replicas = 2;  // each replica has an intake of its own
  EXPECT_NEAR(simulate(s).metrics.duration_s, 20.04, 1e-6);
}

// The process that sends out tokens takes 25 ms for each, and the engine 10 ms for a step of four rows. Forty tokens
// leave per second, so 1000 requests of four tokens take 100 s. The engine keeps up with fewer than two rows per step,
// so requests wait at the front end, and TPOT remains that of the engine.
TEST(Queueing, RequestsWaitForTheTokensBeforeThem) {
  load::Scenario s = testing::base_scenario();
  auto engine = testing::constant_engine(0, 0.01);
  engine->host_stream = Seconds(0.025);
  s.engine = engine;
  s.workload.load = load::ClosedLoop{4, Seconds(0)};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{8}, load::FixedLength{4}};
  s.workload.requests = 1000;
  s.warmup = Seconds(1);
  for (const bool stepwise : {false, true}) {
    s.stepwise = stepwise;
    const sched::PointMetrics m = simulate(s).metrics;
    EXPECT_NEAR(m.duration_s, 100, 2);
    EXPECT_NEAR(*m.tpot.mean, 0.01, 1e-6);
    EXPECT_NEAR(*m.ttft.mean, 0.4 - 0.03, 0.01);  // Little's law: 4 users at 10 requests a second, less three steps
  }
  engine->host_stream = Seconds(0.002);  // four rows put out 400 tokens a second, which take 0.8 of it: none waits
  EXPECT_NEAR(*simulate(s).metrics.ttft.mean, 0.01, 1e-6);
  engine->front_ends[model::FrontEnd::dynamo] = {.stream = Seconds(0.023)};  // together 25 ms again
  EXPECT_NEAR(*simulate(s).metrics.ttft.mean, 0.01, 1e-6);
  s.front_end = model::FrontEnd::dynamo;
  EXPECT_NEAR(*simulate(s).metrics.ttft.mean, 0.4 - 0.03, 0.01);
}

// Beyond capacity the queue grows without end: the run is reported as unstable, because a latency would be meaningless.
TEST(Queueing, OverloadIsReportedAsUnstable) {
  load::Scenario s = single_server(1.3 / 0.25, load::FixedLength{24});
  s.workload.requests = 4000;
  s.warmup = Seconds(0);
  s.replications = 1;
  EXPECT_EQ(simulate(s).metrics.steady.verdict, sched::Steadiness::unstable);
}

// A server at 80 % load is stable for every seed.
TEST(Queueing, HighLoadIsNotCalledUnstable) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    load::Scenario s = single_server(0.8 / 0.25, load::FixedLength{24});
    s.workload.requests = 3000;
    s.workload.seed = seed;
    s.warmup = Seconds(0);
    s.replications = 1;
    EXPECT_EQ(simulate(s).metrics.steady.verdict, sched::Steadiness::stable) << seed;
  }
}

}  // namespace
}  // namespace plimsoll::sim

// SPDX-License-Identifier: Apache-2.0
// A leap must equal its steps: the same decisions at the same times (1e-9 relative or 2 ns). Tested for every policy,
// under KV pressure, with chunking, preemption, time-outs, and several replicas that may come and go.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "sim/simulate.h"
#include "tests/sim/random_scenarios.h"

namespace plimsoll::sim {
namespace {

using sched::PolicyKind;
using sched::PolicyVariant;
using testing::make_harder;
using testing::random_scenario;
using Case = testing::PolicyCase;

void expect_close(double a, double b, const char* what) {
  EXPECT_NEAR(a, b, std::max(2e-9, 1e-9 * std::abs(a))) << what;
}

void expect_same_times(const RunResult& leaping, const RunResult& stepping) {
  ASSERT_EQ(leaping.requests.size(), stepping.requests.size());
  for (std::size_t i = 0; i < leaping.requests.size(); ++i) {
    const RequestRow &a = leaping.requests[i], &b = stepping.requests[i];
    EXPECT_EQ(a.outcome, b.outcome) << i;
    EXPECT_EQ(a.generated, b.generated) << i;
    expect_close(1e-9 * static_cast<double>(a.first_token), 1e-9 * static_cast<double>(b.first_token), "first token");
    expect_close(1e-9 * static_cast<double>(a.end), 1e-9 * static_cast<double>(b.end), "end");
  }
  const sched::PointMetrics &m = leaping.metrics, &n = stepping.metrics;
  EXPECT_EQ(m.requests_completed, n.requests_completed);
  EXPECT_EQ(m.preemptions, n.preemptions);
  expect_close(m.batch_mean, n.batch_mean, "batch_mean");
  expect_close(m.kv_used_mean, n.kv_used_mean, "kv_used_mean");
  EXPECT_NEAR(m.kv_wasted_mean, n.kv_wasted_mean, 1e-7);
  expect_close(m.kv_used_peak, n.kv_used_peak, "kv_used_peak");
  expect_close(m.time_kv_s, n.time_kv_s, "time_kv_s");
  expect_close(m.time_weights_s, n.time_weights_s, "time_weights_s");
  expect_close(m.time_compute_s, n.time_compute_s, "time_compute_s");
  expect_close(m.time_host_s, n.time_host_s, "time_host_s");
  expect_close(m.time_queue_s, n.time_queue_s, "time_queue_s");
  expect_close(m.time_preempt_s, n.time_preempt_s, "time_preempt_s");
  expect_close(m.itl.mean.value_or(0), n.itl.mean.value_or(0), "itl mean");
  EXPECT_EQ(m.itl.p50, n.itl.p50);
  EXPECT_EQ(m.itl.p95, n.itl.p95);
  EXPECT_EQ(m.itl.p99, n.itl.p99);
  EXPECT_EQ(m.steady.verdict, n.steady.verdict);
  EXPECT_EQ(m.replica_failures, n.replica_failures);
  EXPECT_EQ(m.replica_starts, n.replica_starts);
  expect_close(m.replica_s.value_or(0), n.replica_s.value_or(0), "replica_s");
}

void expect_same_logs(const RunResult& leaping, const RunResult& stepping) {
  ASSERT_EQ(leaping.logs.size(), stepping.logs.size());
  for (std::size_t i = 0; i < leaping.logs.size(); ++i) {
    if (leaping.logs[i] == stepping.logs[i]) continue;
    const auto [a, b] =
        std::mismatch(leaping.logs[i].begin(), leaping.logs[i].end(), stepping.logs[i].begin(), stepping.logs[i].end());
    const auto at = static_cast<std::size_t>(a - leaping.logs[i].begin());
    const std::size_t from = at > 150 ? at - 150 : 0;
    FAIL() << "replica " << i << "\nleaping: …" << leaping.logs[i].substr(from, 300) << "\nstepping: …"
           << stepping.logs[i].substr(from, 300);
  }
}

void expect_leaps_are_steps(load::Scenario s) {
  RunOptions options;
  options.keep_requests = options.keep_log = true;
  const RunResult leaping = simulate(s, options);
  s.stepwise = true;
  const RunResult stepping = simulate(s, options);
  expect_same_logs(leaping, stepping);
  expect_same_times(leaping, stepping);
  EXPECT_EQ(leaping.steps_run, stepping.steps_run);
  // Without a log, leaps pass arrivals that change nothing.
  s.stepwise = false;
  options.keep_log = false;
  expect_same_times(simulate(s, options), stepping);
}

class LeapTest : public ::testing::TestWithParam<Case> {};

TEST_P(LeapTest, EqualsItsSteps) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    load::Scenario s = random_scenario(GetParam(), seed);
    if (seed % 2 == 0) make_harder(s, seed);
    expect_leaps_are_steps(s);
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
}

// A replica that fails in the middle of a leap has done exactly the steps that ended before.
TEST_P(LeapTest, EqualsItsStepsWhereReplicasComeAndGo) {
  for (std::uint64_t seed = 101; seed <= 124; ++seed) {
    load::Scenario s = random_scenario(GetParam(), seed);
    if (seed % 2 == 0) make_harder(s, seed);
    testing::add_life(s, seed);
    expect_leaps_are_steps(s);
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, LeapTest, ::testing::ValuesIn(testing::kPolicyCases), testing::case_name);

// Every request ends exactly once, and tokens are conserved.
TEST_P(LeapTest, EveryRequestEndsOnceWithItsTokens) {
  for (std::uint64_t seed = 20; seed <= 26; ++seed) {
    const load::Scenario s = random_scenario(GetParam(), seed);
    RunOptions options;
    options.keep_requests = true;
    const RunResult run = simulate(s, options);
    ASSERT_EQ(run.requests.size(), 120U);
    for (std::size_t i = 0; i < run.requests.size(); ++i) {
      EXPECT_EQ(run.requests[i].id, i);
      if (run.requests[i].outcome != sched::Outcome::completed) continue;
      EXPECT_EQ(run.requests[i].generated, run.requests[i].output);
    }
    const sched::PointMetrics& m = run.metrics;
    EXPECT_LE(m.requests_completed + m.requests_rejected + m.requests_timed_out, 120);
    // Little's law over the whole run: mean number in the system = arrival rate x mean time in it.
    double in_system = 0;
    for (const RequestRow& r : run.requests) in_system += 1e-9 * static_cast<double>(r.end - r.arrival);
    EXPECT_NEAR(m.in_system_mean * m.duration_s, in_system, 1e-6 * in_system + 1e-9);
  }
}

// The next step is decided while one runs: arrivals, cancellations and ends affect the step after the next.
TEST(Simulate, LeapsEqualStepsThatAreDecidedAhead) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    load::Scenario s = random_scenario({PolicyKind::vllm_v1, PolicyVariant::standard}, seed);
    s.policy.async_scheduling = true;
    s.policy.version = seed % 2 == 0 ? 16 : 31;
    s.kv.partial_first = seed % 2 == 1;
    SCOPED_TRACE(seed);
    expect_leaps_are_steps(s);
  }
}

TEST(Simulate, LeapsOfNoTimeMayBeInterrupted) {
  load::Scenario s = testing::base_scenario();
  auto engine = testing::constant_engine(0, 0);
  engine->constant->batch = Seconds(0.1);
  s.engine = engine;
  s.policy.policy = PolicyKind::static_batch;
  s.policy.batch_size = 4;
  s.replicas = 3;
  s.workload.load = load::ClosedLoop{24, Seconds(0)};
  s.limits.timeout = Seconds(2);
  EXPECT_EQ(simulate(s).metrics.requests_completed, 200);
}

TEST(Simulate, ARunBeyondACenturyIsRefused) {
  load::Scenario s = testing::base_scenario();
  s.engine = testing::constant_engine(0, 1e9);
  EXPECT_THROW(static_cast<void>(simulate(s)), InputError);
  s = testing::base_scenario();
  s.workload.load = load::ClosedLoop{2, Seconds(1e9)};
  EXPECT_THROW(static_cast<void>(simulate(s)), InputError);
  s.workload.load = load::Poisson{1e-300};
  EXPECT_THROW(static_cast<void>(simulate(s)), InputError);
}

// Nothing takes time; only a duration ends the loop. It stays at its first instant, but notices a stop request.
TEST(Simulate, AnEndlessInstantCanBeStopped) {
  load::Scenario s = testing::base_scenario();
  s.engine = testing::constant_engine(0, 0);
  s.workload.load = load::ClosedLoop{2, Seconds(0)};
  s.workload.requests = 0;
  s.workload.duration = Seconds(1);
  std::stop_source stop;
  stop.request_stop();
  RunOptions options;
  options.stop = stop.get_token();
  EXPECT_TRUE(simulate(s, options).stopped);
}

TEST(Simulate, IsDeterministic) {
  const load::Scenario s = random_scenario({PolicyKind::vllm_v1, PolicyVariant::standard}, 3);
  EXPECT_EQ(simulate(s).metrics, simulate(s).metrics);
}

}  // namespace
}  // namespace plimsoll::sim

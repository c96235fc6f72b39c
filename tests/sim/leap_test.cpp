// SPDX-License-Identifier: Apache-2.0
// A leap must be nothing but its steps: same decisions, same times (1e-9 relative or 2 ns), for every policy, under KV
// pressure, chunking, preemption, time-outs and several replicas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "model/error.h"
#include "sim/simulate.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::sim {
namespace {

using sched::PolicyKind;
using sched::PolicyVariant;

struct Case {
  PolicyKind policy;
  PolicyVariant variant;
};

const Case kCases[] = {
    {PolicyKind::none, PolicyVariant::standard},         {PolicyKind::static_batch, PolicyVariant::standard},
    {PolicyKind::dynamic, PolicyVariant::standard},      {PolicyKind::rolling, PolicyVariant::standard},
    {PolicyKind::rolling, PolicyVariant::contiguous},    {PolicyKind::orca, PolicyVariant::standard},
    {PolicyKind::tgi, PolicyVariant::standard},          {PolicyKind::tgi, PolicyVariant::tgi_v3},
    {PolicyKind::vllm_v0, PolicyVariant::standard},      {PolicyKind::vllm_v0, PolicyVariant::vllm_01},
    {PolicyKind::vllm_v0, PolicyVariant::vllm_chunked},  {PolicyKind::vllm_v1, PolicyVariant::standard},
    {PolicyKind::sarathi, PolicyVariant::standard},      {PolicyKind::trtllm, PolicyVariant::standard},
    {PolicyKind::sglang, PolicyVariant::standard},
};

// A random scenario; std::mt19937_64 is the same on every platform, and so are these few integer draws.
Scenario random_scenario(const Case& c, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % std::size(all)];
  };
  Scenario s = testing::base_scenario();
  s.policy.policy = c.policy;
  s.policy.variant = c.variant;
  if (pick(0, 1) == 1) s.policy.max_running = pick(4, 16, 64);
  if (c.policy == PolicyKind::static_batch || c.policy == PolicyKind::dynamic) s.policy.batch_size = pick(1, 4, 9);
  if (c.policy == PolicyKind::dynamic && pick(0, 1) == 1) s.policy.delay_origin = sched::DelayOrigin::oldest_arrival;
  if (c.policy == PolicyKind::trtllm) {
    s.policy.capacity_policy = pick(sched::CapacityPolicy::guaranteed_no_evict, sched::CapacityPolicy::max_utilization,
                                    sched::CapacityPolicy::static_batch);
    s.policy.chunked = pick(0, 1) == 1;
  }
  if (c.policy == PolicyKind::vllm_v0 && pick(0, 1) == 1) {
    s.policy.preemption = sched::Preemption::swap;
    s.policy.swap_blocks = 100000;
  }
  if (c.policy == PolicyKind::orca)
    s.policy.reserve = pick(sched::Reserve::max_len, sched::Reserve::pow2, sched::Reserve::request_cap, sched::Reserve::oracle);
  if (pick(0, 1) == 1 && (c.policy == PolicyKind::vllm_v1 || c.policy == PolicyKind::sarathi)) s.policy.step_token_budget = pick(64, 512);
  if (c.policy == PolicyKind::vllm_v1) s.policy.long_prefill_threshold = pick(0, 100);
  s.policy.model_max_len = 2048;
  s.kv.block_tokens = pick(1, 16, 16, 64);
  const std::int64_t tokens = pick(4096, 9000, 40000);   // the smallest holds two of the longest requests
  s.kv.blocks = tokens / s.kv.block_tokens;
  if (pick(0, 2) == 0) {
    auto windowed = testing::small_shape();
    windowed->sliding_window = 200;
    s.shape = windowed;
  }
  const auto lengths = [&](double mean) {
    return traces::LengthDistribution{traces::LengthFamily::lognormal, mean, pick(0.3, 1.5), 1, 900};
  };
  s.workload.lengths = traces::IndependentLengths{lengths(200), lengths(150)};
  s.workload.requests = 120;
  s.workload.seed = seed;
  switch (random() % 4) {
    case 0: s.workload.load = traces::Poisson{pick(1.0, 5.0, 40.0)}; break;
    case 1: s.workload.load = traces::ClosedLoop{pick(1, 8, 50), Seconds(pick(0.0, 0.3))}; break;
    case 2: s.workload.load = traces::GammaArrivals{8, 3}; break;
    default: s.workload.load = traces::Burst{120}; break;
  }
  s.replicas = pick(1, 1, 3);
  s.router = pick(sched::RouterKind::round_robin, sched::RouterKind::least_outstanding);
  if (pick(0, 2) == 0) {
    s.limits.timeout = Seconds(pick(1.0, 4.0));
    s.limits.cancel_on_timeout = pick(0, 1) == 1;
    s.limits.retries = pick(0, 1);
  }
  return s;
}

// Shared prefixes under pressure, a router that looks into the replicas, a warm-up that ends within a leap or with it,
// times that coincide.
void make_harder(Scenario& s, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  if (random() % 2 == 0) {
    s.kv.prefix_caching = true;
    s.workload.prefix = {3, 64};
  }
  s.router = random() % 2 == 0 ? sched::RouterKind::least_kv : sched::RouterKind::prefix;
  s.warmup = Seconds(static_cast<double>(random() % 3));
  if (random() % 2 == 0) s.engine = testing::constant_engine(0.003, 0.01);
  if (random() % 2 == 0 && std::holds_alternative<traces::Poisson>(s.workload.load)) s.workload.load = traces::ConstantRate{20};
}

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
  expect_close(m.time_kv_s, n.time_kv_s, "time_kv_s");
  expect_close(m.time_weights_s, n.time_weights_s, "time_weights_s");
  EXPECT_EQ(m.itl.p50, n.itl.p50);
  EXPECT_EQ(m.itl.p99, n.itl.p99);
}

class LeapTest : public ::testing::TestWithParam<Case> {};

TEST_P(LeapTest, EqualsItsSteps) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Scenario s = random_scenario(GetParam(), seed);
    if (seed % 2 == 0) make_harder(s, seed);
    RunOptions options;
    options.keep_requests = options.keep_log = true;
    const RunResult leaping = simulate(s, options);
    s.stepwise = true;
    const RunResult stepping = simulate(s, options);
    ASSERT_EQ(leaping.logs.size(), stepping.logs.size());
    for (std::size_t i = 0; i < leaping.logs.size(); ++i) {
      if (leaping.logs[i] == stepping.logs[i]) continue;
      const auto [a, b] = std::mismatch(leaping.logs[i].begin(), leaping.logs[i].end(), stepping.logs[i].begin(), stepping.logs[i].end());
      const auto at = static_cast<std::size_t>(a - leaping.logs[i].begin());
      const std::size_t from = at > 150 ? at - 150 : 0;
      ADD_FAILURE() << "seed " << seed << " replica " << i << "\nleaping: …" << leaping.logs[i].substr(from, 300)
                    << "\nstepping: …" << stepping.logs[i].substr(from, 300);
      return;
    }
    expect_same_times(leaping, stepping);
    // Without a log leaps pass over arrivals that change nothing.
    s.stepwise = false;
    options.keep_log = false;
    expect_same_times(simulate(s, options), stepping);
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return std::string(sched::name(info.param.policy)) + "_" + std::to_string(static_cast<int>(info.param.variant));
}
INSTANTIATE_TEST_SUITE_P(Policies, LeapTest, ::testing::ValuesIn(kCases), case_name);

// Every request ends exactly once, and tokens are conserved.
TEST_P(LeapTest, EveryRequestEndsOnceWithItsTokens) {
  for (std::uint64_t seed = 20; seed <= 26; ++seed) {
    const Scenario s = random_scenario(GetParam(), seed);
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

// A batch at constant cost: the steps after the first take no time, and other replicas' clients send in between.
TEST(Simulate, LeapsOfNoTimeMayBeInterrupted) {
  Scenario s = testing::base_scenario();
  auto engine = testing::constant_engine(0, 0);
  engine->constant->batch = Seconds(0.1);
  s.engine = engine;
  s.policy.policy = PolicyKind::static_batch;
  s.policy.batch_size = 4;
  s.replicas = 3;
  s.workload.load = traces::ClosedLoop{24, Seconds(0)};
  s.limits.timeout = Seconds(2);
  EXPECT_EQ(simulate(s).metrics.requests_completed, 200);
}

TEST(Simulate, ARunBeyondACenturyIsRefused) {
  Scenario s = testing::base_scenario();
  s.engine = testing::constant_engine(0, 1e9);
  EXPECT_THROW(static_cast<void>(simulate(s)), InputError);
  s = testing::base_scenario();
  s.workload.load = traces::ClosedLoop{2, Seconds(1e9)};
  EXPECT_THROW(static_cast<void>(simulate(s)), InputError);
  s.workload.load = traces::Poisson{1e-300};
  EXPECT_THROW(static_cast<void>(simulate(s)), InputError);
}

// Nothing takes time and only a duration ends the loop: it never leaves its first instant, but hears a stop.
TEST(Simulate, AnEndlessInstantCanBeStopped) {
  Scenario s = testing::base_scenario();
  s.engine = testing::constant_engine(0, 0);
  s.workload.load = traces::ClosedLoop{2, Seconds(0)};
  s.workload.requests = 0;
  s.workload.duration = Seconds(1);
  std::stop_source stop;
  stop.request_stop();
  RunOptions options;
  options.stop = stop.get_token();
  EXPECT_TRUE(simulate(s, options).stopped);
}

TEST(Simulate, IsDeterministic) {
  const Scenario s = random_scenario({PolicyKind::vllm_v1, PolicyVariant::standard}, 3);
  EXPECT_EQ(simulate(s).metrics, simulate(s).metrics);
}

}  // namespace
}  // namespace plimsoll::sim

// SPDX-License-Identifier: Apache-2.0
// A live run whose steps take constant times must equal a simulated run at constant cost. Decisions and times must be
// the same for every policy, under KV pressure, with preemption, shared prefixes, time-outs and several replicas.
#include "exec/live/live_run.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/exec/ticked_executor.h"
#include "tests/scratch.h"
#include "tests/sim/random_pools.h"
#include "tests/sim/random_scenarios.h"

namespace plimsoll::exec {
namespace {

using sched::PolicyKind;
using sim::testing::PolicyCase;
using testing::TickedExecutor;

// No multiple of one time is near a multiple of the other, of a millisecond or of a think time. Events therefore
// coincide only where one causes the other.
constexpr testing::TickedTimes kTimes{.prefill = 3'000'017, .decode = 10'000'019};
constexpr std::uint64_t kSeed = 11;

load::Scenario constant_scenario(const PolicyCase& policy, std::uint64_t seed) {
  load::Scenario s = sim::testing::random_scenario(policy, seed);
  if (seed % 2 == 0) sim::testing::make_harder(s, seed);
  s.engine = sim::testing::constant_engine(1e-9 * kTimes.prefill, 1e-9 * kTimes.decode);
  auto accelerator = sim::testing::datasheet_a100();
  accelerator->host_link = BytesPerSecond(0);  // swapping takes no time, because the constant engine does not model it
  s.accelerator = accelerator;
  s.stepwise = true;
  s.workload.requests = 60;
  // Answers of one replica at a step boundary of another one would be a tie, which cannot occur in real time.
  if (load::is_closed_loop(s.workload.load)) s.replicas = 1;
  return s;
}

sched::RunResult run_on(StepExecutor& executor, const load::Scenario& s, const sched::RunOptions& options,
                        sched::MetricsCollector& out) {
  return load::run_replications(s, options, out, [&](std::uint64_t, const sched::RunOptions& kept) {
    return std::make_unique<LiveRun>(s, kept, executor);
  });
}

sched::RunResult run_live(const load::Scenario& s, const sched::RunOptions& options) {
  const PromptSource prompts(kSeed, testing::kVocabulary);
  sched::MetricsCollector measurements(s.slo, s.warmup, sched::traits_of(s.policy).returns_at_batch_end);
  TickedExecutor executor(s, kTimes, prompts);
  sched::RunResult result = run_on(executor, s, options, measurements);
  result.metrics = measurements.metrics();
  return result;
}

void expect_same_log(const std::string& live, const std::string& simulated) {
  if (live == simulated) return;
  const auto [a, b] = std::mismatch(live.begin(), live.end(), simulated.begin(), simulated.end());
  const auto at = static_cast<std::size_t>(a - live.begin());
  const std::size_t from = at > 150 ? at - 150 : 0;
  ADD_FAILURE() << "live: …" << live.substr(from, 300) << "\nsimulated: …" << simulated.substr(from, 300);
}

void expect_same_run(const sched::RunResult& live, const sched::RunResult& simulated) {
  ASSERT_EQ(live.logs.size(), simulated.logs.size());
  for (std::size_t i = 0; i < live.logs.size(); ++i) expect_same_log(live.logs[i], simulated.logs[i]);
  ASSERT_EQ(live.requests.size(), simulated.requests.size());
  for (std::size_t i = 0; i < live.requests.size(); ++i) {
    const sched::RequestRow &a = live.requests[i], &b = simulated.requests[i];
    EXPECT_EQ(a.outcome, b.outcome) << i;
    EXPECT_EQ(a.replica, b.replica) << i;
    EXPECT_NEAR(static_cast<double>(a.first_token), static_cast<double>(b.first_token), 2) << i;
    EXPECT_NEAR(static_cast<double>(a.end), static_cast<double>(b.end), 2) << i;
  }
  EXPECT_EQ(live.metrics.preemptions, simulated.metrics.preemptions);
  EXPECT_EQ(live.metrics.steady.verdict, simulated.metrics.steady.verdict);
  EXPECT_NEAR(live.metrics.batch_mean, simulated.metrics.batch_mean, 1e-6 * simulated.metrics.batch_mean);
  EXPECT_NEAR(live.metrics.kv_used_mean, simulated.metrics.kv_used_mean, 1e-6);
  EXPECT_EQ(live.metrics.itl.p50, simulated.metrics.itl.p50);
}

class LiveRunTest : public ::testing::TestWithParam<PolicyCase> {};

TEST_P(LiveRunTest, DecidesAsTheSimulatorDoes) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const load::Scenario s = constant_scenario(GetParam(), seed);
    sched::RunOptions options;
    options.keep_requests = options.keep_log = true;
    expect_same_run(run_live(s, options), sim::simulate(s, options));
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
}
// A control thread that is notified of steps late is notified of several replicas' steps at once.
class LateExecutor final : public StepExecutor {
 public:
  using TickedExecutor = testing::TickedExecutor;
  explicit LateExecutor(TickedExecutor& ticked) : ticked_(ticked) {}
  void start_clock() override { ticked_.start_clock(); }
  void submit(std::size_t replica, StepOrder order) override { ticked_.submit(replica, std::move(order)); }
  void end_order(std::size_t replica) override { ticked_.end_order(replica); }
  Nanos wait(Nanos until, std::vector<StepReport>& reports) override {
    constexpr Nanos kLate = 4'000'000;
    Nanos now = ticked_.wait(until, reports);
    for (const Nanos end = now + kLate; now < end;) now = ticked_.wait(end, reports);
    return now;
  }
  [[nodiscard]] StepBuilder& builder(std::size_t replica) override { return ticked_.builder(replica); }
  void wake() override {}
  void fail(std::exception_ptr failure) override { ticked_.fail(std::move(failure)); }
  [[nodiscard]] std::unique_ptr<LiveTransport> transport(const load::KvTransport::Rates& rates, std::size_t sources,
                                                         std::size_t targets) override {
    return ticked_.transport(rates, sources, targets);
  }

 private:
  TickedExecutor& ticked_;
};

// A late report may lead to a cancellation. It happens then, after earlier ends of steps on other replicas.
TEST_P(LiveRunTest, EventsHeardLateAreReplayed) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    load::Scenario s = constant_scenario(GetParam(), seed);
    s.workload.load = load::Poisson{100};
    s.workload.prefix = {};
    s.replicas = 3;
    s.limits = {.timeout = Seconds(0.055), .cancel_on_timeout = true, .retries = 0};
    sched::RunOptions options;
    options.keep_log = true;
    const PromptSource prompts(kSeed, testing::kVocabulary);
    sched::MetricsCollector measurements(s.slo, s.warmup, false);
    TickedExecutor ticked(s, kTimes, prompts);
    LateExecutor executor(ticked);
    const sched::RunResult result = run_on(executor, s, options, measurements);
    ASSERT_FALSE(result.stopped);
    const Scratch folder;
    EXPECT_EQ(sim::replay(folder.write("events.jsonl", result.events), s), result.logs) << "seed " << seed;
  }
}
// ---- pools ----------------------------------------------------------------------------------------------------

// As random_pools(), but no time is near a multiple of another.
load::Scenario constant_pools(std::uint64_t seed) {
  load::Scenario s = sim::testing::random_pools(seed);
  s.engine = sim::testing::constant_engine(1e-9 * kTimes.prefill, 1e-9 * kTimes.decode);
  auto accelerator = sim::testing::datasheet_a100();
  accelerator->host_link = BytesPerSecond(0);  // retracted requests take no time, as above
  s.accelerator = accelerator;
  s.stepwise = true;
  s.policy.async_scheduling = false;
  s.policy.max_running = std::min<std::int64_t>(s.policy.max_running.value_or(64), 64);
  s.workload.requests = 60;
  s.workload.load = load::Poisson{seed % 2 == 0 ? 7.0 : 31.0};
  load::Pools pools = *s.pools;
  load::Scenario prefill = *pools.prefill;
  prefill.engine = s.engine;
  prefill.stepwise = true;
  prefill.policy = s.policy;
  prefill.policy.role = sched::Role::prefill;
  prefill.workload = s.workload;
  pools.prefill = std::make_shared<const load::Scenario>(prefill);
  // Layers are sent while a step runs, and a run in real time does not know when that step ends.
  if (pools.transfer.overlap == load::TransferOverlap::layer) pools.transfer.overlap = load::TransferOverlap::chunk;
  pools.transfer.launch_s += 1'700'021e-9;
  pools.transfer.hop = pools.transfer.hop > 0 ? 1'300'033 : 0;
  s.pools = std::make_shared<const load::Pools>(pools);
  return s;
}

// Prefill and decode replicas, transfers, local prefills, time-outs: all decide as the simulator does. The device of a
// decode replica fails the test if the KV that it reads is not what the prefill replica wrote.
TEST(LivePoolsTest, DecideAsTheSimulatorDoes) {
  std::int64_t transferred = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const load::Scenario s = constant_pools(seed);
    sched::RunOptions options;
    options.keep_requests = options.keep_log = true;
    const sched::RunResult live = run_live(s, options);
    expect_same_run(live, sim::simulate(s, options));
    for (const sched::RequestRow& row : live.requests) transferred += row.stages ? row.stages->transferred : 0;
    const Scratch folder;
    EXPECT_EQ(sim::replay(folder.write("events.jsonl", live.events), s), live.logs);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(transferred, 100'000);
}

INSTANTIATE_TEST_SUITE_P(Policies, LiveRunTest, ::testing::ValuesIn(sim::testing::kPolicyCases),
                         sim::testing::case_name);

}  // namespace
}  // namespace plimsoll::exec

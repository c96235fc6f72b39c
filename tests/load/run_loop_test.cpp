// SPDX-License-Identifier: Apache-2.0
// The loop with replicas whose steps all take the same time, so that events occur only at multiples of it.
#include "load/run_loop.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "model/error.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::load {
namespace {

constexpr Nanos kStep = 1'000'000'000;

// Listed in the order in which the loop must handle simultaneous events.
enum class Kind : std::uint8_t { step_done, replaced, timed_out, arrived, decided };
using Happened = std::pair<Nanos, Kind>;

/// If `foresees`, next_event() returns the end of steps, as in simulated time; otherwise the loop has to wait for it.
class GridRunner final : public ReplicaRunner {
 public:
  GridRunner(const Scenario& scenario, bool foresees) : scenario_(scenario), foresees_(foresees) {
    for (std::int32_t i = 0; i < scenario.replicas; ++i) put_new();
  }
  std::vector<Happened> happened;
  std::function<void(Nanos)> on_look = [](Nanos) {};

  void start() override { ++starts; }
  int starts = 0;
  Nanos next_event() const override { return foresees_ ? next_end() : sched::kNever; }
  bool in_flight() const override { return !foresees_ && next_end() != sched::kNever; }
  Nanos wait(Nanos until) override { return now_ = std::max(now_, std::min(until, next_end())); }
  bool looks_up(Nanos now) override {
    on_look(now);
    return true;
  }
  bool complete(Nanos now, RunLoop& loop) override {
    bool any = false;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].end > now) continue;
      any = true;
      note(Kind::step_done);
      loop.reached(lanes_[i].end);
      sched::StepsTime time;
      time.start = 1e-9 * static_cast<double>(lanes_[i].end - kStep);
      time.first = time.total = 1e-9 * static_cast<double>(kStep);
      time.end = 1e-9 * static_cast<double>(lanes_[i].end);
      time.end_stamp = std::exchange(lanes_[i].end, sched::kNever);
      replica(i).complete(time);
      loop.collect(i);
      loop.must_decide(i);
    }
    return any;
  }
  void end_plans() override { ended_plans = true; }
  bool ended_plans = false;

  sched::Replica& replica(std::size_t slot) override { return *all_[lanes_[slot].replica]; }
  bool busy(std::size_t slot) const override { return lanes_[slot].end != sched::kNever; }
  std::optional<sched::ReqId> arrive(std::size_t slot, const sched::NewRequest& request, Nanos now) override {
    note(Kind::arrived);
    return replica(slot).arrive(request, now);
  }
  void cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) override {
    note(Kind::timed_out);
    if (!busy(slot) || replica(slot).requests()[id].state == sched::State::waiting) {
      ASSERT_TRUE(replica(slot).is_live(id, serial));
      replica(slot).cancel(id, sched::Outcome::timed_out, now);
    }
  }
  void abandon(std::size_t slot, sched::ReqId id, std::uint64_t) override { replica(slot).abandon(id); }
  void decide(std::size_t slot, Nanos now) override {
    note(Kind::decided);
    if (!busy(slot) && replica(slot).decide(now)) lanes_[slot].end = now + kStep;
  }
  void replace(std::size_t slot, bool, Nanos) override {
    note(Kind::replaced);
    EXPECT_FALSE(busy(slot));
  }
  std::span<sched::Replica* const> replicas() const override { return all_; }

 private:
  struct Lane {
    std::size_t replica = 0;
    Nanos end = sched::kNever;  // end of the step in flight
  };
  void put_new() {
    lanes_.push_back({.replica = all_.size()});
    all_.push_back(&replicas_.emplace_back(sched::Replica::Config{.policy = scenario_.policy, .kv = scenario_.kv}));
  }
  [[nodiscard]] Nanos next_end() const {
    Nanos next = sched::kNever;
    for (const Lane& lane : lanes_) next = std::min(next, lane.end);
    return next;
  }
  void note(Kind kind) { happened.emplace_back(now_, kind); }

  const Scenario& scenario_;
  bool foresees_;
  std::deque<sched::Replica> replicas_;
  std::vector<sched::Replica*> all_;
  std::vector<Lane> lanes_;
  Nanos now_ = 0;
};

// From 0.5 s on, two requests per second for one server that takes a second each; clients wait for two seconds.
Scenario crowded() {
  Scenario s = sim::testing::base_scenario();
  s.policy.policy = sched::PolicyKind::none;
  s.workload.load = ConstantRate{2};
  s.workload.lengths = IndependentLengths{FixedLength{16}, FixedLength{1}};
  s.workload.requests = 40;
  s.limits = {.timeout = Seconds(2), .cancel_on_timeout = true, .retries = 0};
  return s;
}

// A second server is soon requested, at a multiple of half a second, and serves after `start_up`.
Scenario growing(Nanos start_up) {
  Scenario s = crowded();
  s.replicas = 2;
  sched::AutoscalingConfig scaling;
  scaling.max = 2;
  scaling.metric = sched::ScalingMetric::concurrency;
  scaling.target = 2;
  scaling.period = kStep / 2;
  scaling.out_points = 3;
  scaling.start_up = start_up;
  s.life = LifeConfig{.initial = 1, .slots_per_instance = 1, .autoscaling = scaling, .failures = {}};
  return s;
}

struct GridRun {
  explicit GridRun(const Scenario& s, bool foresees, sched::RunOptions wanted = {})
      : options(std::move(wanted)),
        out(s.slo, s.warmup, false),
        runner(s, foresees),
        loop({.scenario = s, .index = 0, .options = options, .out = out}, runner) {}
  sched::RunOptions options;
  sched::MetricsCollector out;
  GridRunner runner;
  RunLoop loop;
};

// Steps end at 1.5, 2.5 … s: with one of the two start-up times, the second server begins to serve at such a time.
TEST(RunLoop, OrdersWhatHappensAtOneTime) {
  std::size_t most_kinds = 0;
  for (const Nanos start_up : {kStep, kStep + kStep / 2}) {
    const Scenario s = growing(start_up);
    GridRun run(s, true);
    ASSERT_TRUE(run.loop.run());
    EXPECT_EQ(run.runner.starts, 1);
    std::map<Nanos, std::vector<Kind>> instants;
    for (const auto& [time, kind] : run.runner.happened) instants[time].push_back(kind);
    for (const auto& [time, kinds] : instants) {
      EXPECT_TRUE(std::is_sorted(kinds.begin(), kinds.end())) << "at " << time;
      most_kinds = std::max(most_kinds, std::set<Kind>(kinds.begin(), kinds.end()).size());
    }
  }
  EXPECT_EQ(most_kinds, 5) << "at some instant everything happens";
}

// The run is the same whether ends of steps are foreseen or waited for.
TEST(RunLoop, WaitsForStepsWhoseEndsAreNotKnown) {
  const Scenario s = growing(kStep);
  GridRun foresees(s, true), waits(s, false);
  ASSERT_TRUE(foresees.loop.run());
  ASSERT_TRUE(waits.loop.run());
  EXPECT_EQ(foresees.runner.happened, waits.runner.happened);
}

TEST(RunLoop, BringsStepsToRestWhenItIsStopped) {
  const Scenario s = crowded();
  std::stop_source stop;
  sched::RunOptions options;
  options.stop = stop.get_token();
  GridRun run(s, false, options);
  run.runner.on_look = [&stop](Nanos now) {
    if (now >= 3 * kStep) stop.request_stop();
  };
  EXPECT_FALSE(run.loop.run());
  EXPECT_TRUE(run.runner.ended_plans);
  EXPECT_FALSE(run.runner.in_flight());
}

// Requests of ten tokens arrive at 1, 2 and 3 s. So steps end at 2, 3, … 13 s, with 1, 2, 3 (eight times), 2 and 1
// requests. A step that ends exactly with the warm-up is measured: eleven steps with 29 rows.
TEST(RunLoop, MeasuresFromTheStepOnThatEndsWithTheWarmUp) {
  Scenario s = sim::testing::base_scenario();
  s.workload.load = ConstantRate{1};
  s.workload.lengths = IndependentLengths{FixedLength{16}, FixedLength{10}};
  s.workload.requests = 3;
  s.warmup = Seconds(3);
  for (const bool foresees : {true, false}) {
    GridRun run(s, foresees);
    ASSERT_TRUE(run.loop.run());
    run.loop.report();
    EXPECT_NEAR(run.out.metrics().batch_mean, 29.0 / 11, 1e-12);
  }
}

// The only client gives up after three steps, at 4 s, and the engine continues to the tenth token. Before the three
// steps 0, 16 and 17 tokens are stored; what is stored later must not enter any mean.
TEST(RunLoop, MeasuresNothingAfterTheLastRequest) {
  Scenario s = sim::testing::base_scenario();
  s.workload.load = ConstantRate{1};
  s.workload.lengths = IndependentLengths{FixedLength{16}, FixedLength{10}};
  s.workload.requests = 1;
  s.limits = {.timeout = Seconds(3), .cancel_on_timeout = false, .retries = 0};
  const double pool = static_cast<double>(s.kv.blocks * s.kv.block_tokens);
  for (const bool foresees : {true, false}) {
    GridRun run(s, foresees);
    ASSERT_TRUE(run.loop.run());
    EXPECT_EQ(run.runner.replica(0).steps(), 10);
    run.loop.report();
    const sched::PointMetrics m = run.out.metrics();
    EXPECT_EQ(m.requests_timed_out, 1);
    EXPECT_DOUBLE_EQ(m.kv_used_mean, (0 + 16 + 17) / (4 * pool));
  }
}

sched::RunOptions keeping_requests() {
  sched::RunOptions options;
  options.keep_requests = true;
  return options;
}

// Requests, logs and steps are kept for the first replication only; the metrics cover all of them.
TEST(RunReplications, KeepsTheRowsOfTheFirst) {
  Scenario s = crowded();
  s.replications = 3;
  s.limits = {};
  sched::MetricsCollector out(s.slo, s.warmup, false);
  std::vector<bool> keeps;
  const auto make = [&](std::uint64_t, const sched::RunOptions& kept) {
    keeps.push_back(kept.keep_requests);
    return std::make_unique<GridRunner>(s, true);
  };
  const sched::RunResult result = run_replications(s, keeping_requests(), out, make);
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(keeps, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(result.requests.size(), 40U);
  const sched::PointMetrics metrics = out.metrics();
  EXPECT_EQ(metrics.requests_completed, 3 * 40);
  EXPECT_EQ(result.steps_run, 3 * 40) << "one step a request";
}

// The results until a device fails are kept, beside its error.
TEST(RunReplications, EndsWithADeviceThatFails) {
  const Scenario s = crowded();
  sched::MetricsCollector out(s.slo, s.warmup, false);
  const auto make = [&](std::uint64_t, const sched::RunOptions&) {
    auto runner = std::make_unique<GridRunner>(s, true);
    runner->on_look = [](Nanos now) {
      if (now >= 5 * kStep) throw DeviceError("gone");
    };
    return runner;
  };
  const sched::RunResult result = run_replications(s, keeping_requests(), out, make);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.failure, "gone");
  EXPECT_FALSE(result.requests.empty());
}

}  // namespace
}  // namespace plimsoll::load

// SPDX-License-Identifier: Apache-2.0
// Capacities of fleets whose service rate is known: steps of constant cost, so that a full batch of b requests of n
// tokens serves b / (n x step) requests a second, whatever the load. A run of a second or two, as short as its study
// asks for, would find any capacity.
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "sim/simulate.h"
#include "study/plan/capacity.h"
#include "study/plan/rate_bound.h"
#include "study/plan/view.h"
#include "study/run/load_variation.h"
#include "study/run/resolve.h"
#include "tests/study/plan/plan_study.h"

namespace plimsoll::study::plan {
namespace {

using ::testing::HasSubstr;

// Requests of 100 tokens, a step of 50 ms: a life of 5 s, and of 8 at once 1.6 requests/s a replica.
constexpr double kRate = 8 / 5.0;

std::string fleet_study(const std::string& load, const std::string& search, const std::string& slo = "{}") {
  return "study: fleet\n"
         "engine: {constant: {prefill: 0 s, decode: 50 ms}}\n"
         "scheduler: {policy: vllm_v1, block_size: 16, max_running: 8}\n"
         "workload:\n  load: " +
         load +
         "\n  lengths: {input: 10, output: 100}\n  requests: 200\n"
         "slo: " +
         slo +
         "\n"
         "search: " +
         search + "\n";
}

class LongRunsTest : public PlanFolder {};

TEST_F(LongRunsTest, CapacityIsTheServiceRateOfTheFleet) {
  for (const int replicas : {1, 8, 64}) {
    const Searched found = search(
        fleet_study("{poisson: {rate: 1 /s}}", "{replicas: [" + std::to_string(replicas) + "], objective: capacity}"));
    const Capacity& capacity = found.answer.entries.front().capacity.value();
    EXPECT_NEAR(capacity.load.mean, kRate * replicas, 0.05 * kRate * replicas) << replicas;
    EXPECT_LE(capacity.load.mean, 1.005 * kRate * replicas) << "the mean of four brackets of 2 %: " << replicas;
  }
}

// The waits that a limit allows are seconds, the fleet's filling takes as long: short runs know nothing of either.
TEST_F(LongRunsTest, ALimitOnWaitsIsKeptInALongRun) {
  const Searched found =
      search(fleet_study("{poisson: {rate: 1 /s}}", "{replicas: [16], objective: capacity}", "{p95_ttft: 3 s}"));
  const double load = found.answer.entries.front().capacity.value().load.mean;
  for (const double share : {0.95, 1.05}) {
    PointSpec spec = *with_load_value(found.question.candidates.front().spec, share * load);
    spec.workload.requests = 30'000;
    spec.workload.seed = 99;
    const sched::PointMetrics m = sim::simulate(*resolve_spec(spec).scenario).metrics;
    const bool sustains = m.steady.verdict == sched::Steadiness::stable && m.slo_values.front() <= 3;
    EXPECT_EQ(sustains, share < 1) << share * load;
  }
}

// 200 rows at the mean rate of 20 /s last 10 s, two lives: one replay says that 4 replicas of 1.6 /s carry them.
TEST_F(LongRunsTest, ATraceIsReplayedUntilItTells) {
  std::string rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < 200; ++i)
    rows += "2023-11-16 18:00:" + std::string(i < 200 ? "0" : "") + std::to_string(i / 20) + "." +
            std::to_string(1000000 + 50000 * (i % 20)).substr(1) + ",10,100\n";
  write("trace.csv", rows);
  const Searched found =
      search(fleet_study("{trace: {file: trace.csv}}", "{replicas: [4, 8, 12, 13, 16], objective: gpus}"));
  EXPECT_EQ(found.winner().spec.deployment.replicas, 13) << "12.5 replicas serve 20 /s; " << found.winner_name();
}

// 1000 clients of 100 replicas: 300 requests are less than one each.
TEST_F(LongRunsTest, AClosedLoopHasRounds) {
  const Searched found = search(fleet_study("{closed_loop: {concurrency: 1000}}",
                                            "{replicas: [100], objective: throughput}", "{p90_latency: 20 s}"));
  const sched::PointMetrics& metrics = found.answer.entries.front().metrics.value();
  EXPECT_EQ(metrics.steady.verdict, sched::Steadiness::stable);
  EXPECT_GE(metrics.requests_completed, 10'000);
}

TEST_F(LongRunsTest, TheBoundExcludesWithoutASimulation) {
  const Searched found = search(fleet_study("{poisson: {rate: 20 /s}}", "{replicas: [4, 11, 14], objective: gpus}"));
  EXPECT_EQ(found.answer.entries[0].stage, Stage::bounded);
  EXPECT_THAT(found.answer.entries[0].verdict, HasSubstr("carries at most 6.4 of 20 /s"));
  EXPECT_EQ(found.answer.entries[1].stage, Stage::bounded);
  EXPECT_EQ(found.winner().spec.deployment.replicas, 14);
}

// No batch limit, length, policy or number of replicas makes a fleet carry more than its full batches serve: neither by
// the capacity that is found nor by a run that is called stable.
RC_GTEST_FIXTURE_PROP(LongRunsTest, NothingIsCarriedBeyondTheServiceRate, ()) {
  const int replicas = *rc::gen::element(1, 3, 20, 100), batch = *rc::gen::inRange(1, 12),
            output = *rc::gen::inRange(2, 200);
  const auto policy = *rc::gen::element<std::string>("vllm_v1", "tgi", "orca", "sarathi");
  const auto load = *rc::gen::element<std::string>("{poisson: {rate: 1 /s}}", "{gamma: {rate: 1 /s, cv: 2}}",
                                                   "{constant: {rate: 1 /s}}");
  const std::string yaml =
      "study: random\nengine: {constant: {prefill: 0 s, decode: 50 ms}}\nscheduler: {policy: " + policy +
      ", max_running: " + std::to_string(batch) + "}\nworkload:\n  load: " + load +
      "\n  lengths: {input: 10, output: " + std::to_string(output) + "}\n  requests: 100\n" + "search: {replicas: [" +
      std::to_string(replicas) + "], objective: capacity}\n";
  const double rate = batch * replicas / (output * 0.05);
  const auto study = std::make_unique<Study>(read(yaml));
  const Question question = make_question(*study, 0);
  RC_ASSERT(RateBound().most(question.candidates.front()).value() >= rate * (1 - 1e-9));
  PointSpec beyond = *with_load_value(question.candidates.front().spec, 1.1 * rate);
  beyond.workload.requests = *rc::gen::element(100, 500, 2000);
  RC_ASSERT(sim::simulate(*resolve_spec(beyond).scenario).metrics.steady.verdict != sched::Steadiness::stable);
}

TEST_F(LongRunsTest, TheWorldsContradictNoAnswer) {
  const Searched found = search(
      fleet_study("{poisson: {rate: 20 /s}}", "{replicas: [12, 13, 14, 15, 16], objective: gpus}", "{p95_ttft: 2 s}"),
      {}, 2, true);
  for (const Sensitivity& world : found.answer.sensitivities) {
    if (!world.winner || world.what.find('+') == std::string::npos) continue;
    EXPECT_GE(found.question.candidates[*world.winner].gpus, found.winner().gpus) << world.what;
  }
}

}  // namespace
}  // namespace plimsoll::study::plan

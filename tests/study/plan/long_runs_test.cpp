// SPDX-License-Identifier: Apache-2.0
// Capacities of fleets with a known service rate. Steps have constant cost, so a full batch of b requests of n tokens
// serves b / (n x step) requests per second, whatever the load. A run of a second or two, as short as the study asks
// for, would accept any load.
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "sim/simulate.h"
#include "study/plan/capacity.h"
#include "study/plan/view.h"
#include "study/run/load_variation.h"
#include "study/run/rate_bound.h"
#include "study/run/resolve.h"
#include "tests/study/plan/plan_study.h"

namespace plimsoll::study::plan {
namespace {

using ::testing::HasSubstr;

// Requests of 100 tokens and steps of 50 ms: a request lives 5 s, and 8 at once are 1.6 requests/s per replica.
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

// The limit allows waits of seconds, and the fleet takes as long to fill: short runs show neither.
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

// 200 rows at 20 /s last 10 s, two lives of a request: one replay would suggest that 4 replicas of 1.6 /s suffice.
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

// 1000 clients on 100 replicas: 300 requests would be less than one per client.
TEST_F(LongRunsTest, AClosedLoopHasRounds) {
  const Searched found = search(fleet_study("{closed_loop: {concurrency: 1000}}",
                                            "{replicas: [100], objective: throughput}", "{p90_latency: 20 s}"));
  const sched::PointMetrics& metrics = found.answer.entries.front().metrics.value();
  EXPECT_EQ(metrics.steady.verdict, sched::Steadiness::stable);
  EXPECT_GE(metrics.requests_completed, 10'000);
}

// 200 requests are served at once, so a run must be long to prove that no client ever waits for 5 s. A search does not
// ask for that proof: if no client gave up, its run is the same as one without a time-out.
TEST_F(LongRunsTest, ATimeoutThatNobodyReachesCostsNoLongerRun) {
  const auto run = [this](const std::string& limits) {
    const Study study = read(
        "study: patience\nengine: {constant: {prefill: 0 s, decode: 10 ms}}\n"
        "scheduler: {policy: vllm_v1, block_size: 16, max_running: 400}\n"
        "workload:\n  load: {poisson: {rate: 200 /s}}\n  lengths: {input: 1, output: 101}\n  requests: 400\n" +
        limits + "slo: {p90_latency: 4 s}\nsearch: {replicas: [1]}\n");
    const Question question = make_question(study, 0);
    return simulate_trial(question.candidates.front(), first_trial(question.spec, 0), false, {})->metrics;
  };
  const sched::PointMetrics without = run(""), with = run("limits: {timeout: 5 s}\n");
  EXPECT_EQ(without.steady.verdict, sched::Steadiness::stable);
  EXPECT_EQ(with, without);
}

TEST_F(LongRunsTest, TheBoundExcludesWithoutASimulation) {
  const Searched found = search(fleet_study("{poisson: {rate: 20 /s}}", "{replicas: [4, 11, 14], objective: gpus}"));
  EXPECT_EQ(found.answer.entries[0].stage, Stage::bounded);
  EXPECT_THAT(found.answer.entries[0].verdict, HasSubstr("carries at most 6.4 of 20 /s"));
  EXPECT_EQ(found.answer.entries[1].stage, Stage::bounded);
  EXPECT_EQ(found.winner().spec.deployment.replicas, 14);
}

// No batch limit, length, policy or number of replicas lets a fleet carry more than its full batches serve. This holds
// for every capacity that is found and for every run that is called stable.
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
  RC_ASSERT(RateBound().most(question.candidates.front().spec).value() >= rate * (1 - 1e-9));
  PointSpec beyond = *with_load_value(question.candidates.front().spec, 1.1 * rate);
  beyond.workload.requests = *rc::gen::element(100, 500, 2000);
  RC_ASSERT(sim::simulate(*resolve_spec(beyond).scenario).metrics.steady.verdict != sched::Steadiness::stable);
}

// Two of 16 replicas with an eighth of the load: with any router, they have as many requests each, for as long.
TEST_F(LongRunsTest, APartOfAFleetTellsOfAllOfIt) {
  for (const std::string router : {"least_outstanding", "round_robin", "random"}) {
    const Study study =
        read(fleet_study("{poisson: {rate: 20 /s}}", "{replicas: [16], routers: [" + router + "], objective: gpus}"));
    const Question question = make_question(study, 0);
    ASSERT_TRUE(can_be_sampled(question.candidates.front().spec));
    Trials trials(question, {});
    const sched::PointMetrics all = trials.one({.requests = 40'000}),
                              part = trials.one({.requests = 40'000, .replicas = 2});
    EXPECT_NEAR(part.requests_per_s, all.requests_per_s, 0.06 * all.requests_per_s) << router;
    EXPECT_NEAR(part.in_system_mean, all.in_system_mean, 0.06 * all.in_system_mean) << router;
    EXPECT_NEAR(*part.latency.mean, *all.latency.mean, 0.05 * *all.latency.mean) << router;
    EXPECT_NEAR(static_cast<double>(part.requests_completed), 40'000, 8) << router << ": counts are of the fleet";
  }
}

// Requests that share prefixes, or clients that wait for answers, behave differently in a smaller fleet.
TEST_F(LongRunsTest, OnlyRequestsThatShareNothingAreSampled) {
  const auto spec = [&](const std::string& load, const Overrides& overrides = {}) {
    return read(fleet_study(load, "{replicas: [16], objective: gpus}"), overrides).point(0);
  };
  EXPECT_EQ(sampled_replicas(spec("{poisson: {rate: 1 /s}}", {{"deployment.replicas", "16"}}), 0.25), 4);
  EXPECT_EQ(sampled_replicas(spec("{poisson: {rate: 1 /s}}", {{"deployment.replicas", "3"}}), 0.25), 0)
      << "two are more than half";
  EXPECT_FALSE(can_be_sampled(spec("{closed_loop: {concurrency: 64}}")));
  EXPECT_FALSE(can_be_sampled(spec("{poisson: {rate: 1 /s}}", {{"scheduler.policy", "static"}})));
}

// All clients begin at once, and it takes many turns until they have spread out. Brackets with only a few turns find
// too little, so the result is compared with longer runs at higher loads as well.
TEST_F(LongRunsTest, AClosedLoopCarriesWhatItsLongRunsDo) {
  const Searched found = search(
      "study: turns\nmodel: llama-3.2-1b\ndtype: bf16\nhardware: g5.12xlarge\nengine: vllm-0.12\n"
      "workload:\n  load: {closed_loop: {concurrency: 24}}\n  lengths: {input: 500, output: 60}\n"
      "slo: {p90_latency: 1 s}\nsearch: {tp: [1], replicas: [1], max_running: [16], objective: capacity}\n");
  const double load = found.answer.entries.front().capacity.value().load.mean;
  for (const double share : {0.95, 1.06}) {
    PointSpec spec = *with_load_value(found.question.candidates.front().spec, std::round(share * load));
    spec.workload.requests = 400 * std::llround(share * load);
    const sched::PointMetrics m = sim::simulate(*resolve_spec(spec).scenario).metrics;
    EXPECT_EQ(m.slo_values.front() <= 1, share < 1) << share * load;
  }
}

TEST(TrialTask, IsReadBackAsItWas) {
  const Trial trial{.candidate = 7,
                    .replication = 3,
                    .requests = 11,
                    .load = 2.5,
                    .load_scale = 1.1,
                    .length_scale = 0.9,
                    .step_scale = 1.2,
                    .lives = 20,
                    .replicas = 4};
  const auto task = read_trial_task(trial_task(5, trial));
  ASSERT_TRUE(task);
  EXPECT_EQ(task->question, 5U);
  EXPECT_TRUE(task->trial == trial);
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

// SPDX-License-Identifier: Apache-2.0
// The largest load within an SLO, for queues that have a formula.
#include "study/plan/capacity.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "model/error.h"
#include "study/plan/bounds.h"
#include "study/plan/bracket.h"
#include "study/plan/explain.h"
#include "study/plan/view.h"
#include "tests/study/plan/plan_study.h"

namespace plimsoll::study::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CapacityTest : public PlanFolder {
 protected:
  [[nodiscard]] Capacity capacity(const std::string& slo, const Overrides& overrides = {}, int jobs = 2) const {
    const Searched found =
        search(queue_study("{poisson: {rate: 5 /s}}", slo, "{replicas: [1], objective: capacity}"), overrides, jobs);
    return found.answer.entries.front().capacity.value();
  }
};

// M/D/1 with D = 100 ms: mean latency D + rho D / (2 (1 - rho)). It is 200 ms at rho = 2/3: 6.667 /s.
TEST_F(CapacityTest, MeanLatencyOfAnMD1) {
  const Capacity found = capacity("{mean_latency: 200 ms}");
  EXPECT_NEAR(found.load.mean, 20.0 / 3, std::max(0.02 * 20 / 3, found.load.half_width));
  EXPECT_LT(found.load.half_width, 0.5);
  EXPECT_EQ(found.load.values, 4U);
  ASSERT_TRUE(found.failing);
  EXPECT_LT(found.passing, *found.failing);
  EXPECT_LT(*found.at_passing->latency.mean, 0.2);
  EXPECT_GT(found.at_failing->latency.mean.value_or(1e9), 0.2);
}

// Without an SLO, the only condition is that the queue does not grow: 10 /s.
TEST_F(CapacityTest, WithoutAnSloItIsTheServiceRate) { EXPECT_NEAR(capacity("{}").load.mean, 10, 0.8); }

TEST_F(CapacityTest, ItGrowsWithTheSlo) {
  double before = 0;
  for (const char* const slo :
       {"{p90_latency: 150 ms}", "{p90_latency: 250 ms}", "{p90_latency: 400 ms}", "{p90_latency: 800 ms}"}) {
    const double load = capacity(slo).load.mean;
    EXPECT_GT(load, before) << slo;
    before = load;
  }
}

TEST_F(CapacityTest, NeitherJobsNorSeedChangeIt) {
  const Capacity one = capacity("{p90_latency: 300 ms}", {}, 1), two = capacity("{p90_latency: 300 ms}", {}, 2);
  EXPECT_EQ(one.load.mean, two.load.mean);
  const Capacity other = capacity("{p90_latency: 300 ms}", {{"seed", "99"}});
  EXPECT_NEAR(other.load.mean, one.load.mean, 1.5 * (other.load.half_width + one.load.half_width));
}

// A closed loop on one server: with N clients each waits N x 100 ms, so 10 clients stay within 1 s.
TEST_F(CapacityTest, ClientsAreWhole) {
  const Searched found = search(
      queue_study("{closed_loop: {concurrency: 3}}", "{p90_latency: 1.05 s}", "{replicas: [1], objective: capacity}"));
  EXPECT_EQ(found.answer.entries.front().capacity.value().passing, 10);
  EXPECT_EQ(found.answer.entries.front().capacity.value().failing, 11);
}

// More servers carry more and win.
TEST_F(CapacityTest, MoreServersCarryMore) {
  const Searched found = search(
      queue_study("{poisson: {rate: 5 /s}}", "{p90_latency: 400 ms}", "{replicas: [1, 2, 3], objective: capacity}"));
  EXPECT_EQ(found.winner().spec.deployment.replicas, 3);
  const SloVerdict& standing = found.answer.entries[*found.answer.winner].standing;
  EXPECT_EQ(standing.runs, 4U) << "four brackets stand behind it";
  EXPECT_TRUE(standing.certain);
}

// More replicas carry more, so fewer are not simulated, and the table states that.
TEST_F(CapacityTest, FewerReplicasAreNotTried) {
  const Searched found = search(
      queue_study("{poisson: {rate: 5 /s}}", "{p90_latency: 400 ms}", "{replicas: [1, 2, 3], objective: capacity}"));
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(found.answer.entries[i].stage, Stage::outranked);
    EXPECT_THAT(found.answer.entries[i].verdict, HasSubstr("carries no more than the same deployment with 3 replicas"));
  }
  // If batches wait until they are full, more replicas may fill theirs later.
  EXPECT_FALSE(more_replicas_help(read(queue_study("{poisson: {rate: 5 /s}}", "{}", "{}"),
                                       {{"scheduler.policy", "static"}, {"scheduler.batch_size", "4"}})
                                      .point(0)));
}

// A service time of 100 ms can never meet 50 ms. Single requests already show that, so there must be no search for a
// load so low that a run lasts for centuries.
TEST_F(CapacityTest, NobodyLooksForEverForALoadThatPasses) {
  const Searched found =
      search(queue_study("{poisson: {rate: 5 /s}}", "{p90_latency: 50 ms}", "{replicas: [1, 2], objective: capacity}"));
  EXPECT_FALSE(found.answer.winner);
  EXPECT_EQ(found.answer.entries[1].capacity.value().passing, 0);
}

// Gaps have a gamma distribution of shape k = 1 / cv^2 = 0.2: few requests on average, but in clusters. Requests within
// 100 ms of the one before wait. They are a tenth of all at the rate r with (0.1 s k r)^k = 0.1 Gamma(1 + k): 3.2e-4
// /s, or less if clusters have more than two. At 0.005 /s the mean number in the system is already below a thousandth.
TEST_F(CapacityTest, ClustersAreNotAloneInAnEmptySystem) {
  const Searched found = search(queue_study("{gamma: {rate: 0.005 /s, cv: 2.236}}", "{p90_latency: 101 ms}",
                                            "{replicas: [1], objective: capacity}"));
  const Capacity carries = found.answer.entries.front().capacity.value();
  EXPECT_GT(carries.load.mean, 1e-4);
  EXPECT_LT(carries.load.mean, 4e-4);
}

// With 1000 clients, 4000 requests are the opening wave and three further turns. A first run has 30 per client, up to
// 10 000.
TEST_F(CapacityTest, TheCurveHasRunsOfTheLengthOfItsLoads) {
  const Study study =
      read(queue_study("{closed_loop: {concurrency: 3}}", "{p90_latency: 100 s}", "{replicas: [1], objective: gpus}"));
  const Question question = make_question(study, 0);
  Trials trials(question, {});
  Capacity capacity;
  capacity.load = {1000, 0, 1};
  capacity.passing = 1000;
  capacity.failing = 1001;
  const LoadCurve curve = load_curve(question, trials, 0, capacity);
  ASSERT_FALSE(curve.loads.empty());
  EXPECT_EQ(curve.slo, 1000);
  for (const CurveLoad& at : curve.loads) {
    double all = std::clamp(30 * at.load, 4000.0, 10'000.0);
    if (all < 10 * at.load)
      all *= 1.5;  // a run needs at least ten turns per client; one that is too short is extended by half of its length
    EXPECT_NEAR(at.metrics.duration_s, 0.1 * all, 0.05 * 0.1 * all)
        << "one server of 100 ms, " << at.load << " clients";
  }
}

// The goal is 4.9 of 5 requests/s. Every smaller load misses it, and some runs at 5 /s do so by chance; that says
// nothing about the largest load that the server carries.
TEST_F(CapacityTest, AGoalOfThroughputIsNoLimitOfTheLoad) {
  const std::string queue = queue_study("{poisson: {rate: 5 /s}}", "{min_requests_per_s: 4.9 /s, mean_latency: 200 ms}",
                                        "{replicas: [1], objective: gpus}");
  const Searched found = search(queue, {{"workload.requests", "500"}}, 2, true);
  ASSERT_TRUE(found.answer.winner);
  const Capacity& carries = found.answer.entries.front().capacity.value();
  EXPECT_NEAR(carries.load.mean, 20.0 / 3, std::max(0.02 * 20 / 3, carries.load.half_width)) << "as MeanLatencyOfAnMD1";
}

// One server carries 10 /s, less than the required 12 /s; two carry more.
TEST_F(CapacityTest, AGoalOfThroughputIsAskedForAtTheLoadThatIsFound) {
  const Searched found =
      search(queue_study("{poisson: {rate: 5 /s}}", "{min_requests_per_s: 12 /s, p90_latency: 400 ms}",
                         "{replicas: [1, 2], objective: capacity}"));
  ASSERT_TRUE(found.answer.winner);
  EXPECT_EQ(found.winner().spec.deployment.replicas, 2);
  const Searched one = search(queue_study("{poisson: {rate: 5 /s}}", "{min_requests_per_s: 12 /s, p90_latency: 400 ms}",
                                          "{replicas: [1], objective: capacity}"));
  EXPECT_FALSE(one.answer.winner);
  EXPECT_GT(one.answer.entries[0].capacity.value().load.mean, 5) << "its own load is found all the same";
}

TEST_F(CapacityTest, GoalsAloneEndNeitherAClosedLoopNorABurst) {
  EXPECT_THROW(search(queue_study("{burst: {count: 4}}", "{min_requests_per_s: 5 /s}", "{objective: capacity}")),
               InputError);
  EXPECT_THROW(
      search(queue_study("{closed_loop: {concurrency: 4}}", "{min_requests_per_s: 5 /s}", "{objective: capacity}")),
      InputError);
}

// If there are more clients than places in the batch, they wait, and the time between tokens does not change: no load
// breaks the limit. Then no limit is shown.
TEST_F(CapacityTest, WhatNoLoadBreaksHasNoCapacity) {
  const Searched found = search(kPlanStudy,
                                {{"workload.load", "{closed_loop: {concurrency: 16}}"},
                                 {"slo", "{p90_tpot: 1 s}"},
                                 {"search.instances", "[ml.g5.2xlarge]"},
                                 {"search.replicas", "[1]"},
                                 {"search.max_running", "[8]"}},
                                2, true);
  ASSERT_TRUE(found.answer.winner);
  const Capacity& carries = found.answer.entries[*found.answer.winner].capacity.value();
  EXPECT_TRUE(carries.is_open());
  EXPECT_LT(carries.passing, 100) << "the search ends when most clients wait";
  EXPECT_FALSE(found.answer.curve.slo);
  const QuestionAnswer finding{.question = found.question, .answer = found.answer, .swept = {}};
  const std::string text = finding_text(finding, 3);
  EXPECT_THAT(text, HasSubstr("this SLO does not limit the load"));
  EXPECT_THAT(text, Not(HasSubstr("idle")));
  EXPECT_THAT(answer_members(finding), HasSubstr("\"capacity\":null"));
}

// The line of a candidate's first run has every column of the ranking, so that a window can show it in the same table;
// its order is not known yet.
TEST_F(CapacityTest, AFirstLookHasTheColumnsOfTheRanking) {
  const Searched found = search(
      queue_study("{poisson: {rate: 5 /s}}", "{p90_latency: 400 ms}", "{replicas: [1, 2], objective: throughput}"));
  const QuestionAnswer finding{.question = found.question, .answer = found.answer, .swept = {}};
  for (std::size_t i = 0; i < found.question.candidates.size(); ++i) {
    const auto& run = found.answer.entries[i].metrics;
    if (!run) continue;
    const std::string text = look_members({}, finding, found.question.candidates[i], *run);
    for (const std::string& column : ranking_columns({})) EXPECT_THAT(text, HasSubstr("\"" + column + "\":"));
    EXPECT_THAT(text, HasSubstr("\"rank\":null"));
    EXPECT_THAT(text, HasSubstr("\"stage\":\"screened\""));
    EXPECT_THAT(text, HasSubstr("\"deployment.replicas\":"));
  }
}

// If replicas come and go, the cost follows the load. Two fixed replicas of 10 /s each idle at 5 /s.
TEST_F(CapacityTest, NothingIdlesInAFleetThatScales) {
  const auto answer = [this](const std::string& deployment) {
    const Searched found = search(queue_study("{poisson: {rate: 5 /s}}", "{p90_latency: 1 s}", "{objective: gpus}"),
                                  {{"deployment", deployment}}, 2, true);
    EXPECT_TRUE(found.answer.winner);
    return finding_text({.question = found.question, .answer = found.answer, .swept = {}}, 3);
  };
  EXPECT_THAT(answer("{replicas: 2}"), HasSubstr("idle  "));
  EXPECT_THAT(answer("{replicas: 2, autoscaling: {min: 1, max: 4, metric: concurrency, target: 10, start_up: 2 min}}"),
              Not(HasSubstr("idle  ")));
}

// 400 requests within 79.8 s are 5.01 requests/s; one server of 100 ms per request can serve twice that rate.
TEST_F(CapacityTest, ATraceIsTimesItsOwnRate) {
  std::string trace = "arrival_s,input_tokens,output_tokens\n";
  for (int i = 1; i <= 400; ++i) trace += std::to_string(0.2 * i) + ",1,1\n";
  write("trace.csv", trace);
  const Searched found =
      search(queue_study("{trace: {file: trace.csv}}", "{p90_latency: 1 s}", "{replicas: [1], objective: capacity}"));
  const std::string text = finding_text({.question = found.question, .answer = found.answer, .swept = {}}, 3);
  EXPECT_THAT(text, ::testing::ContainsRegex("carries +[0-9.± ]+ x \\([0-9.]+ requests/s on average\\)")) << text;
  const Searched beyond = search(queue_study("{trace: {file: trace.csv, rate_scale: 4}}", "{p90_latency: 1 s}",
                                             "{replicas: [1], objective: gpus}"));
  EXPECT_THAT(beyond.answer.entries.front().verdict, HasSubstr("of 20.1 requests/s"))
      << "four times 5.01 /s, not 4 of anything";
}

// For one server with 70 clients and for three with 211, a token costs the same within 0.05 %. A bracket ends at 0.5 %,
// so they tie and the lower bill wins.
TEST_F(CapacityTest, WhatABracketCannotTellApartTies) {
  const Searched found = search(kPlanStudy, {{"workload.load", "{closed_loop: {concurrency: 16}}"},
                                             {"slo", "{p90_latency: 2 s}"},
                                             {"search.instances", "[ml.g5.2xlarge]"},
                                             {"search.replicas", "[1, 3]"},
                                             {"search.max_running", "[256]"},
                                             {"search.objective", "cost_per_token"},
                                             {"search.tp", "[1]"}});
  EXPECT_EQ(found.winner().gpus, 1) << found.winner_name();
  EXPECT_NE(found.answer.entries[1].stage, Stage::outranked) << "the smaller fleets of the best families are looked at";
}

TEST(Bracket, ClosesOnTheEdge) {
  Bracket bracket({.start = 1, .stride = 2, .tolerance = 0.01});
  while (const auto load = bracket.next()) bracket.answer(*load, *load <= 37.3);
  EXPECT_LE(bracket.passing(), 37.3);
  EXPECT_GT(bracket.failing().value(), 37.3);
  EXPECT_NEAR(bracket.value(), 37.3, 0.4);
}

TEST(Bracket, NothingPasses) {
  Bracket bracket({.start = 16, .stride = 2, .tolerance = 0.01, .whole = true});
  while (const auto load = bracket.next()) bracket.answer(*load, false);
  EXPECT_EQ(bracket.passing(), 0);
  EXPECT_EQ(bracket.failing(), 1);
}

TEST(Bracket, GoesNoFurtherDownThanItIsTold) {
  Bracket least({.start = 16, .stride = 2, .tolerance = 0.01, .least = 3});
  while (const auto load = least.next()) {
    EXPECT_GE(*load, 3);
    least.answer(*load, false);
  }
  EXPECT_EQ(least.failing(), 3);
  Bracket ended({.start = 16, .stride = 2, .tolerance = 0.01});
  ended.answer(16, false);
  ended.end_search();
  EXPECT_FALSE(ended.next());
}

// M/M/1 latency at load x is 1 / (1 - x). It is twice that at half the load if 1 / (1 - x) = 2 / (1 - x / 2): x = 2/3.
TEST(Knee, HalfLatencyOfAnMM1) {
  std::vector<double> load, latency;
  for (int i = 1; i < 95; ++i) {
    load.push_back(0.01 * i);
    latency.push_back(1 / (1 - load.back()));
  }
  EXPECT_NEAR(half_latency_knee(load, latency).value(), 2.0 / 3, 0.005);
}

// Two straight lines meet at 6, where the curve bends most.
TEST(Knee, CurvatureOfAnElbow) {
  std::vector<double> load, latency;
  for (int i = 0; i <= 10; ++i) {
    load.push_back(i);
    latency.push_back(i <= 6 ? 1 : 1 + 3 * (i - 6));
  }
  EXPECT_EQ(max_curvature_knee(load, latency), 6);
}

// A step takes 10 ms whatever the batch, so no burst is too large for a limit of 50 ms between tokens. The search for a
// capacity must notice that and end: it goes up to a burst of 4096 times the study's 20 requests.
TEST_F(CapacityTest, ALoadThatNothingLimitsEndsTheSearch) {
  const Searched found =
      search(queue_study("{burst: {count: 20}}", "{p99_tpot: 50 ms}", "{replicas: [1], objective: gpus}"), {}, 2, true);
  ASSERT_TRUE(found.answer.winner);
  const Entry& winner = found.answer.entries[*found.answer.winner];
  ASSERT_TRUE(winner.capacity);
  EXPECT_TRUE(winner.capacity->is_open());
  EXPECT_LE(winner.capacity->load.mean, 20 * 4096.0 * 1.3);
}

}  // namespace
}  // namespace plimsoll::study::plan

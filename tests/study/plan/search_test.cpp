// SPDX-License-Identifier: Apache-2.0
// Searches with a known answer: by arithmetic, by long simulations, or because something must not matter.
#include "study/plan/search.h"

#include <gmock/gmock.h>

#include <limits>
#include <memory>

#include "model/error.h"
#include "sim/simulate.h"
#include "study/plan/view.h"
#include "study/run/load_variation.h"
#include "study/run/resolve.h"
#include "tests/study/plan/plan_study.h"
#include "traces/reader.h"

namespace plimsoll::study::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SearchTest : public PlanFolder {
 protected:
  // Simulates a candidate independently of the search: 20 000 requests, another seed.
  static sched::PointMetrics simulated_long(const Candidate& candidate) {
    PointSpec spec = candidate.spec;
    spec.workload.requests = 20'000;
    spec.workload.seed = 77;
    return sim::simulate(*resolve_spec(spec).scenario).metrics;
  }

  static bool keeps_slo(const PointSpec& spec, const sched::PointMetrics& metrics) {
    if (metrics.steady.verdict != sched::Steadiness::stable) return false;
    for (std::size_t i = 0; i < spec.slo.bounds.size(); ++i) {
      if (metrics.slo_values[i] > spec.slo.bounds[i].limit) return false;
    }
    return true;
  }
};

// The winner must be that of an exhaustive long simulation: the fewest USD/h, and among those the candidate that
// carries most. No candidate that the search excluded or left out may beat it.
TEST_F(SearchTest, ItsWinnerIsThatOfExhaustiveLongSimulation) {
  const Searched found = search(kPlanStudy, {}, 2, true);
  ASSERT_TRUE(found.answer.winner);
  std::vector<std::size_t> able;
  double least = 1e9;
  std::size_t bounded = 0;
  for (std::size_t i = 0; i < found.question.candidates.size(); ++i) {
    const Candidate& c = found.question.candidates[i];
    bounded += found.answer.entries[i].stage == Stage::bounded ? 1 : 0;
    if (!c.excluded.empty()) continue;
    const sched::PointMetrics metrics = simulated_long(c);
    if (!keeps_slo(c.spec, metrics)) continue;
    able.push_back(i);
    least = std::min(least, *c.point.usd_per_hour);
    EXPECT_NE(found.answer.entries[i].stage, Stage::bounded)
        << c.name << " meets the SLO: " << found.answer.entries[i].reason;
  }
  EXPECT_EQ(*found.winner().point.usd_per_hour, least);
  // At a load 7 % above what the winner carries, no candidate of the same price meets the SLO.
  const double carries = found.answer.entries[*found.answer.winner].capacity.value().load.mean;
  for (const std::size_t i : able) {
    const Candidate& c = found.question.candidates[i];
    if (*c.point.usd_per_hour != least) continue;
    Candidate pressed = c;
    pressed.spec = *with_load_value(c.spec, 1.07 * carries);
    EXPECT_FALSE(keeps_slo(pressed.spec, simulated_long(pressed)))
        << c.name << " carries more than " << found.winner_name();
  }
  EXPECT_GT(bounded, 0U) << "the bounds exclude somebody";
}

TEST_F(SearchTest, TheAnswerDoesNotDependOnTheNumberOfJobs) {
  const Searched one = search(kPlanStudy, {}, 1, true), four = search(kPlanStudy, {}, 4, true);
  EXPECT_EQ(one.answer.order, four.answer.order);
  for (std::size_t i = 0; i < one.answer.entries.size(); ++i) {
    EXPECT_EQ(one.answer.entries[i].verdict, four.answer.entries[i].verdict);
    EXPECT_EQ(one.answer.entries[i].objective.mean, four.answer.entries[i].objective.mean);
  }
}

// Candidates that cannot run state why, and are never simulated. A 24 GB A10G holds the 13 GB of weights of a 7B model
// and its cache, but not the weights of the 13B.
TEST_F(SearchTest, WhatCannotExistHasItsReason) {
  const Searched found = search(kPlanStudy, {{"model", "llama-2-13b"}});
  std::size_t excluded = 0;
  for (std::size_t i = 0; i < found.answer.entries.size(); ++i) {
    const Candidate& c = found.question.candidates[i];
    const bool small = c.spec.hardware.label == "ml.g5.2xlarge";
    if (small) {
      EXPECT_EQ(found.answer.entries[i].stage, Stage::excluded) << c.name;
    }
    if (found.answer.entries[i].stage != Stage::excluded) continue;
    ++excluded;
    EXPECT_FALSE(found.answer.entries[i].verdict.empty()) << c.name;
  }
  EXPECT_GE(excluded, 24U);
  EXPECT_EQ(found.question.feasible + excluded, found.question.candidates.size());
}

// 60 servers of 10 s carry 6 /s, and 4.97 of 5 /s are required. They meet this with more load, or with 10 % longer
// steps, but not with less load. A run of 4000 requests takes 800 s and 10 s for the last one: its 4.94 /s would miss
// the limit in every case.
TEST_F(SearchTest, AnotherWorldIsNotJudgedByAShortRun) {
  const std::string queue =
      queue_study("{constant: {rate: 5 /s}}", "{min_requests_per_s: 4.97 /s}", "{replicas: [60], objective: gpus}");
  const Searched found = search(queue, {{"engine", "{constant: {prefill: 9 s, decode: 1 s}}"}}, 2, true);
  ASSERT_TRUE(found.answer.winner);
  for (const Sensitivity& world : found.answer.sensitivities) {
    EXPECT_EQ(world.winner.has_value(), world.what != "load -10 %") << world.what;
    EXPECT_TRUE(world.at_least || world.check_kind == CheckKind::queue) << world.check;
  }
}

TEST_F(SearchTest, ListingAValueTwiceIsRefused) {
  EXPECT_THROW(search(kPlanStudy, {{"search.instances", "[ml.g5.2xlarge, ml.g5.2xlarge]"}}), InputError);
  EXPECT_THROW(search(kPlanStudy, {{"search.max_running", "[8, 64, 8]"}}), InputError);
}

// An ml.g5.12xlarge has four GPUs, so four replicas of one GPU each are as many as fit.
TEST_F(SearchTest, AsManyAsFitAndTheirNumberAreOneDeployment) {
  const Study study =
      read(kPlanStudy,
           {{"search",
             "{instances: [ml.g5.12xlarge], tp: [1], replicas_per_instance: [4, max, 2], instance_count: [1, 2]}"}});
  std::vector<std::int32_t> replicas;
  for (const Candidate& candidate : make_question(study, 0).candidates)
    replicas.push_back(candidate.spec.deployment.replicas);
  EXPECT_THAT(replicas, ::testing::ElementsAre(4, 8, 2, 4));
}

// A search that is too large is refused before its million combinations are compared.
TEST_F(SearchTest, TooManyCombinationsAreRefusedFirst) {
  std::string thousand = "[1";
  for (int i = 2; i <= 1001; ++i) thousand += ", " + std::to_string(i);
  const Overrides large{{"search.replicas", thousand + "]"}, {"search.max_running", thousand + ", 1]"}};
  try {
    static_cast<void>(search(kPlanStudy, large));
    FAIL() << "a million deployments and more are accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("combinations"));
  }
}

// Without any output the throughput is 0, infinitely below the limit; that must not be reported as failed requests.
TEST_F(SearchTest, AThroughputOfZeroIsNotCalledAFailure) {
  Searched found =
      search(queue_study("{poisson: {rate: 5 /s}}", "{min_requests_per_s: 4 /s}", "{replicas: [1], objective: gpus}"));
  const double infinity = std::numeric_limits<double>::infinity();
  found.answer.sensitivities = {
      {.what = "load +10 %", .winner = {}, .ratio = infinity, .check = "goodput", .at_least = true},
      {.what = "load -10 %", .winner = {}, .ratio = infinity, .check = "p90 latency", .at_least = false}};
  const std::string text = finding_text({.question = found.question, .answer = found.answer, .swept = {}}, 3);
  EXPECT_THAT(text, ::testing::HasSubstr("(goodput is 0 there)"));
  EXPECT_THAT(text, ::testing::HasSubstr("(p90 latency: too many requests fail)"));
}

// A value shown in ms has its interval in ms.
TEST_F(SearchTest, IntervalsHaveTheUnitOfTheirValue) {
  const Searched found =
      search(queue_study("{poisson: {rate: 5 /s}}", "{mean_latency: 300 ms, min_requests_per_s: 4 /s}",
                         "{replicas: [1], objective: gpus}"));
  const std::string text = finding_text({.question = found.question, .answer = found.answer, .swept = {}}, 3);
  EXPECT_THAT(text, ::testing::ContainsRegex("mean latency 1[0-9.]+ ms of at most 300 ms \\(± [0-9.]+ ms at 95 %\\)"))
      << text;
  EXPECT_THAT(text, ::testing::ContainsRegex("requests [0-9.]+ /s of at least 4 /s \\(± [0-9.]+ /s at 95 %\\)"))
      << text;
}

TEST_F(SearchTest, LimitsOnMoneyAndGpusAreKept) {
  const Searched found = search(kPlanStudy, {{"search.max_gpus", "2"}, {"workload.rate", "4 /s"}});
  ASSERT_TRUE(found.answer.winner);
  EXPECT_LE(found.winner().gpus, 2);
  const Searched poor = search(kPlanStudy, {{"search.max_usd_per_hour", "0.5"}});
  EXPECT_FALSE(poor.answer.winner);
  EXPECT_THAT(poor.answer.entries.front().verdict, HasSubstr("max_usd_per_hour"));
}

// By docs/metrics.md, a batch that returns as a whole has no time between its tokens, so it meets any limit on that. A
// token takes about 30 ms on an A10G.
TEST_F(SearchTest, TimeBetweenTokensExcludesNoWholeBatches) {
  const Searched found = search(kPlanStudy, {{"slo", "{p99_itl: 10 ms, p99_tpot: 10 ms, p90_latency: 12 s}"},
                                             {"search.instances", "[ml.g5.2xlarge]"},
                                             {"search.policies", "[static, dynamic, tgi]"},
                                             {"search.max_running", "[8]"},
                                             {"workload.rate", "2 /s"},
                                             {"scheduler", "{max_batch_delay: 100 ms}"}});
  ASSERT_TRUE(found.answer.winner);
  EXPECT_NE(found.winner().spec.policy.policy, sched::PolicyKind::tgi);
  for (std::size_t i = 0; i < found.answer.entries.size(); ++i) {
    const bool whole = found.question.candidates[i].spec.policy.policy != sched::PolicyKind::tgi;
    if (whole)
      EXPECT_NE(found.answer.entries[i].stage, Stage::bounded) << found.question.candidates[i].name;
    else
      EXPECT_NE(found.answer.entries[i].standing.meets, true);
  }
  const std::string text = finding_text({.question = found.question, .answer = found.answer, .swept = {}}, 3);
  EXPECT_THAT(text, HasSubstr("p99 itl does not apply: a batch returns as a whole"));
  EXPECT_THAT(text, Not(HasSubstr("itl 0 ms")));
}

TEST_F(SearchTest, AnImpossibleWishNamesWhatComesNearest) {
  const Searched found = search(kPlanStudy, {{"slo", "{p90_latency: 10 ms}"}});
  EXPECT_FALSE(found.answer.winner);
  // 16 steps of an A10G or A100 take more than 10 ms, so this bound excludes all candidates. The nearest one is still
  // simulated.
  std::size_t bounded = 0;
  for (const Entry& entry : found.answer.entries) {
    bounded += entry.stage == Stage::bounded ? 1 : 0;
    if (entry.stage == Stage::bounded) {
      EXPECT_THAT(entry.verdict, HasSubstr("even on an idle machine"));
    }
  }
  EXPECT_GT(bounded, 0U);
  ASSERT_FALSE(found.answer.order.empty());
  const Candidate& nearest = found.question.candidates[found.answer.order.front()];
  EXPECT_EQ(nearest.spec.hardware.label, "ml.p4d.24xlarge") << nearest.name;
  EXPECT_THAT(found.answer.entries[found.answer.order.front()].verdict, HasSubstr("times the limit of 10 ms"));
}

// The user's prices reverse the order: at 0.01 USD per GPU-hour, p4d is the cheapest.
TEST_F(SearchTest, OwnPricesCount) {
  const Searched found = search(kPlanStudy, {{"prices", "{ml.p4d.24xlarge: 0.08}"}});
  ASSERT_TRUE(found.answer.winner);
  EXPECT_EQ(found.winner().spec.hardware.label, "ml.p4d.24xlarge");
  EXPECT_DOUBLE_EQ(*found.winner().point.usd_per_hour, 0.08);
}

// A user's own machine has no price and needs none: the cost is then counted in GPUs.
TEST_F(SearchTest, AnOwnBoxNeedsNoPrice) {
  const Overrides box{{"hardware", "8xh100"}, {"search", "{tp: [1, 2], replicas: [1, 2, 4], objective: cost}"}};
  const Searched found = search(kPlanStudy, box);
  ASSERT_TRUE(found.answer.winner);
  EXPECT_FALSE(found.question.is_priced);
  EXPECT_EQ(found.winner().gpus, 1) << "30 requests/s of 64 + 16 tokens are little for an H100";
  EXPECT_EQ(found.answer.entries[*found.answer.winner].objective.mean, 1);
  EXPECT_EQ(objective_unit(found.question), "GPUs");
  const std::string text = finding_text({.question = found.question, .answer = found.answer, .swept = {}}, 3);
  EXPECT_THAT(text, HasSubstr("no price of h100-sxm x 8 is known"));
  EXPECT_THAT(text, HasSubstr("7 of 8 GPUs have no replica"));
}

// If a price is missing, costs cannot be compared: that is an error, and never "nothing meets the SLO".
TEST_F(SearchTest, APriceThatIsNeededIsAskedFor) {
  const Overrides both{{"search.instances", "[8xh100, ml.g5.2xlarge]"}};
  const auto said = [&](Overrides overrides) {
    try {
      static_cast<void>(search(kPlanStudy, overrides));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(said(both), HasSubstr("the price of h100-sxm x 8"));
  EXPECT_THAT(said(both), HasSubstr("usd_per_hour"));
  EXPECT_THAT(said({{"hardware", "8xh100"}, {"search", "{tp: [1], replicas: [1], max_usd_per_hour: 10}"}}),
              HasSubstr("max_usd_per_hour needs the price"));
  EXPECT_EQ(said({both[0], {"search.objective", "gpus"}}), "") << "fewest GPUs ask for no price";
  EXPECT_EQ(said({both[0], {"prices", "{gpu_hour: 2}"}}), "");
}

// SageMaker's prices are from 2025-04, EC2's newest from 2026-07.
TEST_F(SearchTest, PricesOfDifferentDatesAreSaid) {
  const auto notes = [&](const std::string& instances) {
    const Study study = read(kPlanStudy, {{"search.instances", instances}});
    return make_question(study, 0).notes;
  };
  EXPECT_THAT(notes("[ml.g5.2xlarge, g5.2xlarge]"), ::testing::Contains(HasSubstr("prices of different dates")));
  EXPECT_TRUE(notes("[g5.2xlarge, g5.12xlarge]").empty());
}

// Equal deployments tie and are shown as ties: a batch limit that is never reached does not matter.
TEST_F(SearchTest, EqualDeploymentsTie) {
  const Searched found = search(kPlanStudy, {{"search.max_running", "[2048, 4096]"},
                                             {"search.replicas", "[8]"},
                                             {"search.instances", "[ml.p4d.24xlarge]"},
                                             {"search.tp", "[1]"},
                                             {"workload.rate", "5 /s"}});
  ASSERT_TRUE(found.answer.winner);
  EXPECT_THAT(found.winner_name(), HasSubstr("max_running 2048")) << "the name decides";
  ASSERT_EQ(found.answer.order.size(), 2U);
  EXPECT_TRUE(found.answer.entries[found.answer.order[1]].ties);
}

// M/D/1 servers of 100 ms at 40 /s: 4 replicas are fully used and their queue grows for ever, so at least 5 are needed.
// Five are enough for a p90 of 1 s: the mean wait of an M/D/1 at 80 % is 0.2 s, and less if a router balances the load.
TEST_F(SearchTest, FewestServersOfAQueue) {
  const Searched found = search(
      queue_study("{poisson: {rate: 40 /s}}", "{p90_latency: 1 s}", "{replicas: [2, 3, 4, 5, 6, 8], objective: gpus}"));
  ASSERT_TRUE(found.answer.winner);
  EXPECT_EQ(found.winner().spec.deployment.replicas, 5);
  const Entry& four = found.answer.entries[2];
  EXPECT_FALSE(four.standing.meets);
  EXPECT_THAT(four.verdict, ::testing::AnyOf(HasSubstr("keep up"), HasSubstr("carries"), HasSubstr("p90 latency")))
      << four.verdict;
}

// One server of 100 ms and 8 clients that think 3 s each. Once they are spread out, 8 requests every 3.1 s keep it busy
// a quarter of the time and meet a p90 of 350 ms. But all begin at once: the last of the first 8 requests waits 800 ms,
// 2.2 times the limit.
TEST_F(SearchTest, AnOpeningWaveThrowsNobodyAway) {
  const Overrides eight{{"workload.requests", "8"}};
  const std::string load = "{closed_loop: {concurrency: 8, think: 3 s}}", slo = "{p90_latency: 350 ms}";
  const Searched gpus = search(queue_study(load, slo, "{replicas: [1, 2, 4, 8], objective: gpus}"), eight);
  EXPECT_EQ(gpus.winner_name(), gpus.question.candidates[0].name);
  const Searched tokens = search(queue_study(load, slo, "{replicas: [1], objective: throughput}"), eight);
  EXPECT_TRUE(tokens.answer.winner);
}

// 60 servers of 10 s carry 6 /s, and therefore 4.9 of 5 /s. But 20 requests, sent within 4 s, take 14 s until the last
// one ends: 1.4 /s.
TEST_F(SearchTest, TheEndOfAShortRunIsNoLackOfThroughput) {
  for (const char* const objective : {"gpus", "latency", "throughput"}) {
    const Searched found = search(queue_study("{constant: {rate: 5 /s}}", "{min_requests_per_s: 4.9 /s}",
                                              std::string("{replicas: [60, 70], objective: ") + objective + "}"),
                                  {{"workload.requests", "20"}, {"engine", "{constant: {prefill: 9 s, decode: 1 s}}"}});
    EXPECT_EQ(found.winner_name(), found.question.candidates[0].name) << objective;
  }
}

// The warm-up outlasts a run of 20 requests at 10 /s, so nothing is measured; it does not outlast one of 200.
TEST_F(SearchTest, WhatWasNotMeasuredIsMeasuredLonger) {
  const Overrides warm{{"workload.requests", "20"}, {"workload.warmup", "5 s"}};
  const std::string study =
      queue_study("{poisson: {rate: 10 /s}}", "{p90_latency: 1 s}", "{replicas: [2, 4], objective: gpus}");
  const Searched found = search(study, warm);
  EXPECT_EQ(found.winner_name(), found.question.candidates[0].name);
  const Searched never = search(study, {{"workload.requests", "20"}, {"workload.warmup", "1 h"}});
  EXPECT_FALSE(never.answer.winner);
  EXPECT_THAT(never.answer.entries.front().verdict, HasSubstr("nothing was measured"));
}

TEST_F(SearchTest, LowestLatencyAtAThroughput) {
  const Searched found = search(kPlanStudy, {{"search.objective", "latency"},
                                             {"search.instances", "[ml.p4d.24xlarge]"},
                                             {"search.max_gpus", "8"},
                                             {"workload.load", "{closed_loop: {concurrency: 16}}"},
                                             {"slo", "{min_output_tokens_per_s: 300}"}});
  ASSERT_TRUE(found.answer.winner);
  const double best = found.answer.entries[*found.answer.winner].standing.latency_p90.mean;
  for (std::size_t i = 0; i < found.answer.entries.size(); ++i) {
    const Entry& entry = found.answer.entries[i];
    if (entry.stage != Stage::confirmed || !entry.standing.meets) continue;
    EXPECT_GE(entry.standing.latency_p90.mean, 0.99 * best) << found.question.candidates[i].name;
  }
}

TEST_F(SearchTest, ACapacityThatHasNoEndIsRefused) {
  EXPECT_THROW(search(queue_study("{closed_loop: {concurrency: 4}}", "{}", "{objective: capacity}")), InputError);
}

TEST_F(SearchTest, AScriptHasNoLoadToLookFor) {
  for (const char* const objective : {"capacity", "cost_per_token"}) {
    const Overrides script{{"workload.load", "{script: \"A:6+3@1 B:5+4@2\"}"}, {"search.objective", objective}};
    EXPECT_THROW(search(kPlanStudy, script), InputError) << objective;
  }
}

TEST_F(SearchTest, ACancelledSearchAnswersWithWhatItKnows) {
  const Study study = read(kPlanStudy);
  const Question question = make_question(study, 0);
  RunControl control;
  TrialSettings settings;
  settings.jobs = 1;
  settings.control = &control;
  int seen = 0;
  settings.on_first = [&](const Candidate&, const sched::PointMetrics&) {
    if (++seen == 7) control.cancel();
  };
  Trials trials(question, settings);
  const Answer answer = find_best(question, trials);
  EXPECT_TRUE(answer.cancelled);
  EXPECT_EQ(answer.order.size(), 7U);
}

// "lengths +10 %" must have the same effect on a trace as `lengths_scale: 1.1`. 1000 + 100 tokens become 1100 + 110,
// and its hashed blocks grow from 512 to 563 tokens, so a shared prefix remains the same fraction of a prompt.
TEST(TrialSpec, LengthsOfATraceScaleWithTheirPrefixes) {
  auto trace = std::make_shared<traces::Trace>();
  trace->records = {{.arrival = 0, .input_tokens = 1000, .output_tokens = 100}};
  trace->hash_block_tokens = 512;
  PointSpec spec;
  load::TraceReplay replay;
  replay.trace = trace;
  spec.workload.load = replay;
  spec.workload.lengths = load::TracePairs{.trace = trace};
  const PointSpec longer = trial_spec(spec, {.length_scale = 1.1});
  const auto scaled = std::get<load::TraceReplay>(longer.workload.load).trace;
  EXPECT_EQ(scaled->records.front().input_tokens, 1100);
  EXPECT_EQ(scaled->records.front().output_tokens, 110);
  EXPECT_EQ(scaled->hash_block_tokens, 563);
  EXPECT_EQ(std::get<load::TracePairs>(longer.workload.lengths).trace, scaled) << "pairs stay those of the replay";
}

}  // namespace
}  // namespace plimsoll::study::plan

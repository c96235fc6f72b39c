// SPDX-License-Identifier: Apache-2.0
#include "gui/core/plan_question.h"

#include "gui/core/pool_form.h"
#include "model/error.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ViewState limit_of(double ms) {
  ViewState view;
  view.limit = ms;  // of p90 latency per token
  return view;
}

TEST(PlanQuestionTest, WhereTheFormStandsDoesNotRestrictTheSearch) {
  Scenario scenario = default_scenario();
  set_field(scenario, "deployment.tp", QStringLiteral("8"));
  set_field(scenario, "deployment.replicas", QStringLiteral("1"));
  set_field(scenario, "scheduler.max_running", QStringLiteral("48"));
  const PlanQuestion question = plan_question(scenario, limit_of(50));
  EXPECT_EQ(question.slo, "{p90_latency_per_token: 50 ms}");
  EXPECT_EQ(question.search,
            "{objective: capacity, tp: [1, 2, 4, 8], replicas_per_instance: [1, 2, 4, 8], instance_count: [1], "
            "max_running: [16, 32, 48, 64, 128, 256]}");
  EXPECT_THAT(utf8(question.words), HasSubstr("the largest load on one ml.p4d.24xlarge"));
  EXPECT_THAT(utf8(question.words), HasSubstr("p90 latency per token ≤ 50 ms"));
}

TEST(PlanQuestionTest, AListInTheFormDoes) {
  Scenario scenario = default_scenario();
  set_field(scenario, "deployment.tp", QStringLiteral("2, 4"));
  set_field(scenario, "deployment.replicas", QStringLiteral("1, 3"));
  set_field(scenario, "scheduler.max_running", QStringLiteral("8, 16"));
  set_field(scenario, "hardware", QStringLiteral("ml.p4d.24xlarge, ml.g5.12xlarge"));
  EXPECT_EQ(plan_question(scenario, limit_of(50)).search,
            "{objective: capacity, tp: [2, 4], replicas: [1, 3], max_running: [8, 16], instances: [ml.p4d.24xlarge, "
            "ml.g5.12xlarge]}");
}

TEST(PlanQuestionTest, OneLoadAsksForTheLeastCost) {
  Scenario scenario = default_scenario();
  set_load(scenario, QStringLiteral("poisson"), QStringLiteral("4"));
  const PlanQuestion question = plan_question(scenario, limit_of(50));
  EXPECT_THAT(question.search, HasSubstr("objective: cost"));
  EXPECT_THAT(question.search, Not(HasSubstr("instance_count")));
  EXPECT_THAT(utf8(question.words), HasSubstr("for 4 requests/s"));
}

// The first of the loads, which the study states beside its sweep, would be the easiest to carry.
TEST(PlanQuestionTest, ACostIsAskedForTheLargestOfTheLoads) {
  Scenario scenario = default_scenario();
  set_load(scenario, QStringLiteral("gamma"), QStringLiteral("2, 16, 8"));
  set_edit(scenario, "workload.load.gamma.cv", "3");
  set_field(scenario, "search", QStringLiteral("{objective: cost, tp: [8]}"));
  EXPECT_THAT(utf8(plan_question(scenario, limit_of(50)).words),
              HasSubstr("the least cost on ml.p4d.24xlarge\nfor 16 requests/s, the largest of the loads\namong TP 8"));
  const auto catalogue = std::make_shared<const configs::Catalogue>();
  const study::Study planned = make_study(plan_scenario(scenario, limit_of(50)), catalogue);
  EXPECT_EQ(planned.point_count(), 1U);
  const study::PointSpec point = planned.point(0);
  const auto* gamma = std::get_if<load::GammaArrivals>(&point.workload.load);
  ASSERT_NE(gamma, nullptr);
  EXPECT_EQ(gamma->rate, 16);
  EXPECT_EQ(gamma->cv, 3) << "the load keeps the rest of what it states";
}

// With pools the planner divides the replicas: a TP degree or a number of replicas for all means nothing.
TEST(PlanQuestionTest, PoolsAreSplit) {
  Scenario scenario = new_scenario();
  set_pools(scenario, true);
  EXPECT_EQ(plan_question(scenario, limit_of(50)).search,
            "{objective: capacity, split: auto, prefill.tp: [1, 2, 4, 8], decode.tp: [1, 2, 4, 8]}");
  set_load(scenario, QStringLiteral("poisson"), QStringLiteral("4"));
  set_field(scenario, "deployment.pools.decode.tp", QStringLiteral("4, 8"));
  const PlanQuestion question = plan_question(scenario, limit_of(50));
  EXPECT_EQ(question.search,
            "{objective: cost, split: auto, replicas: [2, 3, 4, 6, 8, 12, 16], prefill.tp: [1, 2, 4, 8], "
            "decode.tp: [4, 8]}");
  EXPECT_THAT(utf8(question.words), HasSubstr("the least cost in two pools"));
  // Applying an answer leaves the question as it was.
  const std::string key = question_key(scenario, limit_of(50));
  set_field(scenario, "deployment.pools.prefill.replicas", QStringLiteral("3"));
  EXPECT_EQ(question_key(scenario, limit_of(50)), key);
}

TEST(PlanQuestionTest, TheStudysOwnWordsWin) {
  Scenario scenario = default_scenario();
  set_field(scenario, "slo", QStringLiteral("{p95_ttft: 1 s}"));
  set_field(scenario, "search", QStringLiteral("{objective: gpus, tp: [8]}"));
  const PlanQuestion question = plan_question(scenario, limit_of(50));
  EXPECT_EQ(question.slo, "{p95_ttft: 1 s, p90_latency_per_token: 50 ms}")
      << "as in the curves, the line is a limit besides the study's own";
  EXPECT_EQ(question.search, "{objective: gpus, tp: [8]}");
}

TEST(PlanQuestionTest, TheSafetyMarginTightensEveryLimit) {
  Scenario scenario = default_scenario();
  set_field(scenario, "slo", QStringLiteral("{p95_ttft: 1 s, min_goodput: 2 /s}"));
  ViewState view = limit_of(50);
  view.margin = 0.1;
  const PlanQuestion question = plan_question(scenario, view);
  EXPECT_EQ(question.slo, "{p95_ttft: 0.9 s, min_goodput: 2.2 /s, p90_latency_per_token: 45 ms}");
  EXPECT_THAT(utf8(question.words), HasSubstr("10 % below the limits"));
}

TEST(PlanQuestionTest, UsingADeploymentAsksNothingElse) {
  Scenario scenario = default_scenario();
  const std::string before = question_key(scenario, limit_of(50));
  set_field(scenario, "deployment.tp", QStringLiteral("1"));
  set_field(scenario, "deployment.replicas", QStringLiteral("8"));
  EXPECT_EQ(question_key(scenario, limit_of(50)), before);
  EXPECT_NE(question_key(scenario, limit_of(60)), before);
  set_field(scenario, "model", QStringLiteral("llama-2-13b"));
  EXPECT_NE(question_key(scenario, limit_of(50)), before);
}

TEST(PlanQuestionTest, AThroughputIsNoSlo) {
  ViewState view = limit_of(50);
  view.y = "output_tokens_per_s";
  EXPECT_THROW(static_cast<void>(plan_question(default_scenario(), view)), InputError);
}

sched::Slo::Bound bound(sched::Slo::Metric metric, double quantile, double limit) { return {metric, quantile, limit}; }

// The curves show the metric that the study limits; a percentile that no curve has is skipped.
TEST(ShowSloTest, TheLineIsAtTheFirstLimitThatCanBeShown) {
  using Metric = sched::Slo::Metric;
  sched::Slo slo;
  slo.bounds = {bound(Metric::itl, 0.9, 0.04), bound(Metric::ttft, 0.95, 0.5), bound(Metric::latency, -1, 20)};
  ViewState view;
  show_slo(slo, view);
  EXPECT_EQ(view.y, "ttft_p95_s");
  EXPECT_DOUBLE_EQ(view.limit, 500);  // ms
  view = {};
  view.y = "latency_mean_s";
  show_slo(slo, view);
  EXPECT_EQ(view.y, "latency_mean_s");
  EXPECT_DOUBLE_EQ(view.limit, 20);  // s
  view = limit_of(50);
  show_slo({}, view);
  EXPECT_EQ(view, limit_of(50));
}

}  // namespace
}  // namespace plimsoll::gui

// SPDX-License-Identifier: Apache-2.0
// Results simulated on demand: the map of TP by batch limit, the paired comparison.
#include "gui/core/details.h"

#include <map>

#include "gui/core/answer_rows.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class DetailsTest : public BenchTest {
 protected:
  std::shared_ptr<const configs::Catalogue> catalogue_ =
      std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  study::RunControl control_;
};

TEST_F(DetailsTest, TheMapWithinALimitHoldsTheMostThatEachDeploymentCarries) {
  Scenario scenario = open_scenario(kJumpStart);
  const Metric& metric = *find_metric("latency_per_token_p90_s");
  constexpr double kLimitMs = 30;
  const HeatMap map = simulate_heat_map_within(scenario, catalogue_, {&metric, kLimitMs, true}, control_);
  ASSERT_EQ(map.cells.size(), map.tp.size() * map.batch.size());
  EXPECT_EQ(map.load, 0);

  // The curves answer the same question with the same figures, to the last digit.
  Workbench bench;
  open(bench, kJumpStart);
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("8"));
  bench.set_value(QStringLiteral("scheduler.max_running"), QStringLiteral("16"));
  bench.set_view({}, {}, [](ViewState& view) { view.limit = kLimitMs; });
  settle(bench);
  const auto rows = answer_rows(bench, drawn_limit(bench.session().state().view));
  ASSERT_EQ(rows.size(), 1U);
  ASSERT_TRUE(rows[0].answer && rows[0].answer->carried);
  EXPECT_FALSE(rows[0].answer->every) << "the limit decides something";
  const auto row = static_cast<std::size_t>(std::find(map.tp.begin(), map.tp.end(), 8) - map.tp.begin());
  const auto column = static_cast<std::size_t>(std::find(map.batch.begin(), map.batch.end(), 16) - map.batch.begin());
  const HeatMap::Cell& cell = map.cells[row * map.batch.size() + column];
  ASSERT_TRUE(cell.row && cell.answer);
  EXPECT_EQ(cell.answer->tokens_per_s, rows[0].answer->tokens_per_s);
  EXPECT_EQ(cell.answer->usd_per_million, rows[0].answer->usd_per_million);
  EXPECT_EQ(cell.answer->labels.load_value, rows[0].answer->labels.load_value);
}

TEST_F(DetailsTest, WhatIsNeverWithinALimitIsApartFromWhatCannotExist) {
  Scenario scenario = open_scenario(kJumpStart);
  set_field(scenario, "hardware", QStringLiteral("ml.g5.12xlarge"));  // four GPUs: TP 8 is impossible
  const HeatMap map =
      simulate_heat_map_within(scenario, catalogue_, {find_metric("latency_per_token_p90_s"), 0.001}, control_);
  for (std::size_t i = 0; i < map.cells.size(); ++i) {
    EXPECT_FALSE(map.cells[i].row);
    EXPECT_EQ(map.cells[i].reason.isEmpty(), map.tp[i / map.batch.size()] < 8) << i << utf8(map.cells[i].reason);
  }
}

// Around a single load the curve has refined points on both sides, so its first point is not one of the study's.
TEST_F(DetailsTest, ASingleLoadHasAMapToo) {
  Scenario scenario = open_scenario(kJumpStart);
  set_load(scenario, QStringLiteral("closed_loop"), QStringLiteral("16"));
  const HeatMap map =
      simulate_heat_map_within(scenario, catalogue_, {find_metric("latency_per_token_p90_s"), 1000, true}, control_);
  for (const HeatMap::Cell& cell : map.cells) EXPECT_TRUE(cell.answer);
}

TEST_F(DetailsTest, TheMapAtALoadIsOfThatLoad) {
  const HeatMap map = simulate_heat_map(open_scenario(kJumpStart), catalogue_, 16, control_);
  EXPECT_EQ(map.load, 16);
  for (const HeatMap::Cell& cell : map.cells) {
    ASSERT_TRUE(cell.row);
    EXPECT_EQ(cell.row->result.labels.load_value, 16);
  }
}

TEST_F(DetailsTest, AScenarioDoesNotDifferFromItself) {
  Scenario scenario = open_scenario(kJumpStart);
  set_field(scenario, "deployment.tp", QStringLiteral("4"));
  const auto same = paired_differences({make_study(scenario, catalogue_), make_study(scenario, catalogue_)},
                                       *find_metric("latency_mean_s"), 3, control_);
  ASSERT_EQ(same.size(), 10U);
  for (const PairedDifference& d : same) {
    EXPECT_EQ(d.mean, 0);
    EXPECT_EQ(d.half_width.value_or(1), 0);
  }
  Scenario other = scenario;
  set_field(other, "deployment.tp", QStringLiteral("8"));
  const auto changed = paired_differences({make_study(scenario, catalogue_), make_study(other, catalogue_)},
                                          *find_metric("latency_mean_s"), 3, control_);
  ASSERT_EQ(changed.size(), 10U);
  for (const PairedDifference& d : changed) EXPECT_NE(d.mean, 0);
}

// Only 4 clients are in both lists. Paired by their order, 1 client of A would be compared with 4 of B.
TEST_F(DetailsTest, PointsAreComparedAtEqualLoads) {
  Scenario a = open_scenario(kJumpStart);
  set_field(a, "deployment.tp", QStringLiteral("4"));
  Scenario b = a;
  set_load(a, QStringLiteral("jumpstart"), QStringLiteral("1, 2, 4"));
  set_load(b, QStringLiteral("jumpstart"), QStringLiteral("4, 8"));
  const Metric& latency = *find_metric("latency_mean_s");
  const auto compare = [&] {
    return paired_differences({make_study(a, catalogue_), make_study(b, catalogue_)}, latency, 2, control_);
  };
  const auto found = compare();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].load, 4);
  EXPECT_EQ(found[0].mean, 0) << "the same deployment under the same load";
  // 4 requests/s are not 4 clients.
  set_load(b, QStringLiteral("poisson"), QStringLiteral("4"));
  EXPECT_TRUE(compare().empty());
}

// TP 2 and TP 4 are in both; B has them in another order, and a third one.
TEST_F(DetailsTest, CurvesAreComparedByTheirNames) {
  Scenario a = open_scenario(kJumpStart);
  set_load(a, QStringLiteral("jumpstart"), QStringLiteral("4"));
  Scenario b = a;
  set_field(a, "deployment.tp", QStringLiteral("2, 4"));
  set_field(b, "deployment.tp", QStringLiteral("4, 2, 8"));
  const auto found = paired_differences({make_study(a, catalogue_), make_study(b, catalogue_)},
                                        *find_metric("latency_mean_s"), 2, control_);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(utf8(found[0].curve), "tp 2");
  EXPECT_EQ(utf8(found[1].curve), "tp 4");
  for (const PairedDifference& d : found) EXPECT_EQ(d.mean, 0) << "equal deployments";
  // A single curve is compared with all.
  set_field(a, "deployment.tp", QStringLiteral("2"));
  const auto each = paired_differences({make_study(a, catalogue_), make_study(b, catalogue_)},
                                       *find_metric("latency_mean_s"), 2, control_);
  ASSERT_EQ(each.size(), 3U);
  EXPECT_EQ(utf8(each[1].curve), "tp 2");
  EXPECT_EQ(each[1].mean, 0);
  EXPECT_NE(each[0].mean, 0);
}

TEST_F(DetailsTest, ACancelledComparisonEnds) {
  control_.cancel();
  Scenario scenario = open_scenario(kJumpStart);
  EXPECT_TRUE(paired_differences({make_study(scenario, catalogue_), make_study(scenario, catalogue_)},
                                 *find_metric("latency_mean_s"), 3, control_)
                  .empty());
}

}  // namespace
}  // namespace plimsoll::gui

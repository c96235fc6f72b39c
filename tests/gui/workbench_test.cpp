// SPDX-License-Identifier: Apache-2.0
// The lanes and their results: exactness, order, replacement, failures.
#include "gui/core/workbench.h"

#include <QAbstractItemModelTester>
#include <set>

#include "gui/core/coarse_order.h"
#include "model/error.h"
#include "study/run/run_study.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class WorkbenchTest : public BenchTest {};

std::string simulated_csv(const Workbench& bench) {
  const study::Study study = make_study(bench.session().scenario(), bench.catalogue());
  study::RunSettings settings;
  settings.bands = true;  // as `simulate` does
  return study::points_csv(study.swept_keys(), study::run_study(study, settings).points);
}

TEST_F(WorkbenchTest, TheFinalCurveIsWhatSimulatePrintsToTheLastDigit) {
  Workbench bench;
  open(bench, kJumpStart);
  const auto results = bench.curves().results();
  ASSERT_EQ(results.size(), 40U);
  EXPECT_TRUE(study::points_csv(bench.curves().outline().swept_keys, results) == simulated_csv(bench));
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
  settle(bench);
  EXPECT_EQ(bench.curves().results().size(), 10U);
  EXPECT_TRUE(study::points_csv(bench.curves().outline().swept_keys, bench.curves().results()) == simulated_csv(bench));
}

TEST_F(WorkbenchTest, TheSavedStudyGivesTheSamePoints) {
  Workbench bench;
  open(bench, kJumpStart);
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("2"));
  settle(bench);
  const QString saved = folder_.filePath(QStringLiteral("saved.yaml"));
  bench.save_study(saved);
  const study::Study study(utf8(saved), {}, bench.catalogue());
  study::RunSettings settings;
  settings.bands = true;
  EXPECT_TRUE(study::points_csv(study.swept_keys(), study::run_study(study, settings).points) ==
              study::points_csv(bench.curves().outline().swept_keys, bench.curves().results()));
}

TEST_F(WorkbenchTest, EveryPointOfTheStudyGetsItsBandInTheEnd) {
  Workbench bench;
  open(bench, kJumpStart);
  const auto low = column_index("latency_per_token_p90_s_lo"), high = column_index("latency_per_token_p90_s_hi"),
             value = column_index("latency_per_token_p90_s");
  for (const Curve& curve : bench.curves().curves()) {
    for (const LanePoint& point : curve.points) {
      if (point.stage != PointStage::study) continue;
      const auto& cells = point.row.cells;
      ASSERT_TRUE(std::holds_alternative<double>(cells[*low]) && std::holds_alternative<double>(cells[*high]));
      EXPECT_LE(std::get<double>(cells[*low]), std::get<double>(cells[*value]));
      EXPECT_GE(std::get<double>(cells[*high]), std::get<double>(cells[*value]));
    }
  }
}

TEST_F(WorkbenchTest, RefinedPointsAreMarkedAndNeverAmongTheStudys) {
  Workbench bench;
  open(bench, kJumpStart);
  std::size_t refined = 0;
  for (const Curve& curve : bench.curves().curves()) {
    for (const LanePoint& point : curve.points) {
      EXPECT_NE(point.stage, PointStage::estimate);
      refined += point.stage == PointStage::refined ? 1 : 0;
    }
  }
  EXPECT_GT(refined, 0U);
  EXPECT_EQ(bench.curves().results().size(), 40U);
}

TEST_F(WorkbenchTest, WithoutASelectionTheDetailsAreOfALoadThatTheStudyStates) {
  Workbench bench;
  open(bench, kJumpStart);
  static_cast<void>(bench.details());
  settle(bench);
  ASSERT_NE(bench.details(), nullptr);
  EXPECT_EQ(bench.details()->load, 32)
      << "the sixth of 1, 2, 4 ... 512; 45, the middle of the refined curve, is stated nowhere";
}

TEST_F(WorkbenchTest, ADragEndsWithTheCurveOfItsLastPosition) {
  Workbench bench;
  open(bench, kJumpStart);
  for (int i = 0; i < 200; ++i) {
    bench.set_value(QStringLiteral("deployment.tp"), qs(std::to_string(1 << (i % 4))));
    if (i % 7 == 0) QCoreApplication::processEvents();
  }
  settle(bench);
  const auto results = bench.curves().results();
  ASSERT_EQ(results.size(), 10U);
  for (const auto& point : results) EXPECT_EQ(point.labels.tp, 8);  // the last of 200 changes: 199 % 4 = 3
  EXPECT_TRUE(bench.curves().previous().empty());
  // All changes form one undo step.
  bench.session().undo();
  EXPECT_FALSE(bench.session().can_undo());
}

TEST_F(WorkbenchTest, OldCurvesStayUntilTheNewOnesAreComplete) {
  Workbench bench;
  open(bench, kJumpStart);
  bool blank = false;
  QObject::connect(&bench, &Workbench::curves_changed, &bench, [&] {
    const bool drawn = bench.curves().simulated() > 0 || !bench.curves().previous().empty();
    blank = blank || !drawn;
  });
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
  settle(bench);
  EXPECT_FALSE(blank);
}

TEST_F(WorkbenchTest, WhatDoesNotFitSaysByHowMuchAndTheNextChangeRecovers) {
  Workbench bench;
  open(bench, kJumpStart);
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("1"));
  bench.set_value(QStringLiteral("model"), QStringLiteral("llama-2-70b"));
  settle(bench);
  ASSERT_FALSE(bench.curves().impossible().empty());
  EXPECT_THAT(utf8(bench.curves().impossible().front()), ::testing::HasSubstr("GB are missing"));
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("8"));
  settle(bench);
  EXPECT_TRUE(bench.curves().impossible().empty());
}

TEST_F(WorkbenchTest, AWrongValueIsNamedByItsFieldAndNothingIsLost) {
  Workbench bench;
  open(bench, kJumpStart);
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("many"));
  settle(bench);
  ASSERT_TRUE(bench.failure());
  EXPECT_TRUE(bench.failure()->place.startsWith(QStringLiteral("--set deployment.tp=many")))
      << utf8(bench.failure()->place);
  EXPECT_EQ(bench.curves().results().size(), 40U) << "the curves before it stay";
  bench.session().undo();
  settle(bench);
  EXPECT_FALSE(bench.failure());
}

TEST_F(WorkbenchTest, FilesThatAreNothingLeaveEverythingAsItWas) {
  Workbench bench;
  open(bench, kJumpStart);
  for (const char* const text :
       {"", "{", "plimsoll_session: 1\nscenarios: 7\n", "plimsoll_session: 2\n", "nonsense: 1\n", "\xff\xfe"}) {
    EXPECT_THROW(bench.open(qs(write("bad.yaml", text))), InputError) << text;
  }
  EXPECT_THROW(bench.open(QStringLiteral("/nowhere.yaml")), InputError);
  EXPECT_THROW(bench.open(qs(write("bad.csv", "a,b\n1,2\n"))), InputError);
  EXPECT_EQ(bench.session().scenario().name, QStringLiteral("jumpstart-7b-p4d"));
  EXPECT_EQ(bench.curves().results().size(), 40U);
}

TEST_F(WorkbenchTest, PublishedPointsFindTheirCurves) {
  Workbench bench;
  open(bench, kJumpStart);
  const auto points = overlay_points(bench.curves(), bench.tables());
  std::set<std::size_t> curves;
  for (const OverlayPoint& point : points) curves.insert(point.curve);
  EXPECT_EQ(curves.size(), 4U);
  const auto errors =
      residuals(bench.curves(), points, *find_metric("output_tokens_per_s"), *find_metric("latency_per_token_p90_s"));
  EXPECT_GE(errors.size(), 40U);  // 4 degrees x 10 loads, some published twice
  EXPECT_LT(summary_of(errors).mean, 0.5);
}

TEST_F(WorkbenchTest, TheTableIsAModel) {
  Workbench bench;
  const QAbstractItemModelTester tester(&bench.curves(), QAbstractItemModelTester::FailureReportingMode::Fatal);
  open(bench, kJumpStart);
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
  settle(bench);
  EXPECT_EQ(bench.curves().columnCount(), 2 + static_cast<int>(row_columns().size()));
}

TEST_F(WorkbenchTest, DestroyedInTheMiddleOfAJobNothingHangs) {
  for (int i = 0; i < 20; ++i) {
    Workbench bench;
    bench.open(qs(kJumpStart));
    if (i % 2 == 0) QCoreApplication::processEvents();
  }
}

TEST(CoarseOrderTest, EveryPointOnceEndsFirst) {
  for (const std::size_t n : {1U, 2U, 3U, 10U, 33U}) {
    const auto order = bisection_order(n);
    EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), n);
    EXPECT_EQ(order.size(), n);
    EXPECT_EQ(order[0], 0U);
    if (n > 1) {
      EXPECT_EQ(order[1], n - 1);
    }
  }
  EXPECT_TRUE(bisection_order(0).empty());
}

}  // namespace
}  // namespace plimsoll::gui

// SPDX-License-Identifier: Apache-2.0
// Separate pools for prefill and decode in the window: the form, the header, the curves, the timeline, where time goes.
#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>

#include "gui/core/pool_form.h"
#include "gui/core/request_stages.h"
#include "gui/core/scenario.h"
#include "gui/window/header_bar.h"
#include "gui/window/main_window.h"
#include "gui/window/scenario_dock.h"
#include "gui/window/timeline_page.h"
#include "model/error.h"
#include "study/output/run_files.h"
#include "study/run/simulate_point.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

const std::string kPools = std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies/pools-llama-70b.yaml";

std::shared_ptr<const configs::Catalogue> pools_catalogue() {
  static const auto one = std::make_shared<const configs::Catalogue>();
  return one;
}

TEST(PoolFormTest, ADeploymentIsSplitAndJoined) {
  Scenario scenario = new_scenario();
  set_field(scenario, "deployment.tp", QStringLiteral("2"));
  set_field(scenario, "deployment.replicas", QStringLiteral("3"));
  EXPECT_FALSE(states_pools(scenario));
  set_pools(scenario, true);
  ASSERT_TRUE(states_pools(scenario));
  study::PointSpec point = make_study(scenario, pools_catalogue()).point(0);
  ASSERT_TRUE(point.prefill);
  EXPECT_EQ(point.prefill->deployment.replicas, 1);
  EXPECT_EQ(point.prefill->deployment.tp, 2);
  EXPECT_EQ(point.deployment.replicas, 3) << "the decode pool has the former replicas";
  EXPECT_EQ(point.deployment.tp, 2);
  set_field(scenario, "deployment.pools.decode.replicas", QStringLiteral("5"));
  set_pools(scenario, false);
  EXPECT_FALSE(states_pools(scenario));
  point = make_study(scenario, pools_catalogue()).point(0);
  EXPECT_FALSE(point.prefill);
  EXPECT_EQ(point.deployment.tp, 2);
  EXPECT_EQ(point.deployment.replicas, 6) << "as many GPUs as 1 x 2 + 5 x 2";
}

// Such a study is refused, but the switch still works: it used to state the replicas twice, which ended the program.
TEST(PoolFormTest, ReplicasBesidePoolsDoNotHinderJoiningThem) {
  Scenario scenario = new_scenario();
  set_pools(scenario, true);
  set_field(scenario, "deployment.replicas", QStringLiteral("2"));
  EXPECT_THROW(static_cast<void>(make_study(scenario, pools_catalogue())), InputError);
  set_pools(scenario, false);
  EXPECT_EQ(make_study(scenario, pools_catalogue()).point(0).deployment.replicas, 2) << "one and one";
}

// Their keys mean something else, or nothing, in a deployment with pools.
TEST(PoolFormTest, SweepsOfTheDeploymentEndButTheLoadStays) {
  Scenario scenario = new_scenario();
  set_load(scenario, QStringLiteral("poisson"), QStringLiteral("1, 2"));
  set_field(scenario, "deployment.tp", QStringLiteral("4, 8"));
  set_field(scenario, "workload.lengths.input", QStringLiteral("100, 200"));
  set_pools(scenario, true);
  const study::Study study = make_study(scenario, pools_catalogue());
  EXPECT_EQ(study.point_count(), 4U) << "2 rates x 2 lengths";
  EXPECT_EQ(study.point(0).prefill->deployment.tp, 4) << "the first of those that were swept";
  EXPECT_EQ(load_field(scenario).kind, QStringLiteral("poisson"));
  EXPECT_EQ(load_field(scenario).values, QStringLiteral("1, 2"));
  EXPECT_NE(command_line(scenario, QStringLiteral("simulate")).indexOf(QStringLiteral("pools")), -1);
}

// Settings of a pool that the form does not show are listed, and can be removed one by one.
TEST(PoolFormTest, APoolsOtherSettingsAreListed) {
  Scenario scenario = open_scenario(kPools);
  std::map<std::string, std::string> listed;
  for (const OtherSetting& setting : other_settings(scenario)) listed[setting.path] = setting.value;
  EXPECT_EQ(listed,
            (std::map<std::string, std::string>{{"deployment.pools.prefill.scheduler.step_token_budget", "16384"},
                                                {"deployment.pools.decode.router", "least_kv"},
                                                {"deployment.transfer.launch", "0.5 ms"}}));
  for (const auto& [path, value] : listed) {
    remove_setting(scenario, path);
    const auto left = other_settings(scenario);
    EXPECT_TRUE(std::none_of(left.begin(), left.end(), [&, &gone = path](const auto& s) { return s.path == gone; }))
        << path;
  }
  EXPECT_TRUE(other_settings(scenario).empty());
  const study::PointSpec point = make_study(scenario, pools_catalogue()).point(0);
  EXPECT_EQ(point.prefill->deployment.tp, 2) << "all else stays";
  EXPECT_NE(point.prefill->policy.step_token_budget, std::optional<std::int64_t>(16384));
  EXPECT_EQ(point.transfer.bandwidth, 40e9);
}

// The stages follow one another: their times sum to the latency, as the means of points.csv do.
TEST(RequestStagesTest, SumToTheLatencyOfEveryRequest) {
  const study::Study study(kPools, {{"workload.requests", "60"}}, pools_catalogue());
  study::RunControl control;
  const PointDetails details = simulate_details(study, 1, {}, control);
  EXPECT_EQ(details.decode_replicas, 2);
  ASSERT_TRUE(has_stages(details.requests));
  bool transfers = false;
  for (const sim::RequestRow& row : details.requests) {
    Nanos at = row.arrival;
    for (const StageSpan& stage : stage_spans(row)) {
      EXPECT_EQ(stage.from, at) << "no gap";
      EXPECT_GT(stage.to, stage.from);
      transfers = transfers || stage.stage == RequestStage::transfer;
      at = stage.to;
    }
    EXPECT_EQ(at, row.end);
  }
  EXPECT_TRUE(transfers);
  const auto under_way = transfers_under_way(details.requests);
  ASSERT_FALSE(under_way.empty());
  EXPECT_EQ(under_way.back().value, 0) << "each one ends";
  // The files of a run give the same stages.
  const auto read = parse_requests(QByteArray::fromStdString(study::requests_csv(details.requests)), "requests.csv");
  ASSERT_EQ(read.size(), details.requests.size());
  EXPECT_EQ(read[3].stages->prefill_replica, details.requests[3].stages->prefill_replica);
  EXPECT_NEAR(static_cast<double>(read[3].stages->transfer_end),
              static_cast<double>(details.requests[3].stages->transfer_end), 1000);
}

class PoolWindowTest : public BenchTest {
 protected:
  PoolWindowTest() : window_(bench_) {
    window_.resize(1200, 800);
    window_.show();
  }
  void SetUp() override { open(bench_, kPools); }
  [[nodiscard]] Field* field(const char* path) { return window_.scenario().field(qs(path)); }
  Workbench bench_;
  MainWindow window_;
};

TEST_F(PoolWindowTest, TheCurveIsWhatSimulatePrints) {
  ASSERT_FALSE(bench_.failure());
  const auto shown = bench_.curves().results();
  const study::Study study(kPools, {}, pools_catalogue());
  ASSERT_EQ(shown.size(), study.point_count());
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto truth = study::simulate_point(study::resolve_point(study, i), {}).result;
    ASSERT_TRUE(shown[i].metrics);
    EXPECT_EQ(shown[i].metrics->latency.mean, truth.metrics->latency.mean);
    EXPECT_EQ(shown[i].metrics->pools, truth.metrics->pools);
  }
}

TEST_F(PoolWindowTest, HeaderAndFormShowBothPools) {
  // 2 x 2 + 2 x 4 GPUs, each pool on an instance of 8 of its own.
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("prefill 2 × TP 2 + decode 2 × TP 4, 12 GPUs, 2 × p5.48xlarge"));
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("4 idle"));
  EXPECT_FALSE(bench_.filling_replicas()) << "which pool should grow is not known";
  EXPECT_TRUE(field("deployment.tp")->isHidden());
  EXPECT_FALSE(field("deployment.pools.decode.tp")->isHidden());
  EXPECT_EQ(field("deployment.pools.decode.tp")->box()->currentText(), QStringLiteral("4"));
  // An empty field shows its default.
  EXPECT_THAT(utf8(field("deployment.transfer.overlap")->box()->lineEdit()->placeholderText()), HasSubstr("none"));
  // Throughput per GPU counts the GPUs of both pools.
  const LanePoint& point = bench_.curves().curves()[0].points.front();
  EXPECT_EQ(point.row.gpus, 12);
}

TEST_F(PoolWindowTest, ASliderOfAPoolMovesTheCurve) {
  QSlider* slider = field("deployment.pools.prefill.replicas")->slider();
  slider->setFocus();
  QTest::keyClick(slider, Qt::Key_Right);
  settle(bench_);
  ASSERT_FALSE(bench_.failure());
  EXPECT_EQ(bench_.curves().results().front().prefill_replicas, 3);
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("prefill 3 × TP 2"));
}

TEST_F(PoolWindowTest, TheSwitchJoinsAndCanBeUndone) {
  auto boxes = window_.scenario().findChildren<QCheckBox*>();
  const auto found = std::find_if(boxes.begin(), boxes.end(), [](const QCheckBox* box) {
    return box->text().startsWith(QStringLiteral("Separate"));
  });
  ASSERT_NE(found, boxes.end());
  EXPECT_TRUE((*found)->isChecked());
  (*found)->click();
  settle(bench_);
  EXPECT_FALSE(bench_.failure());
  EXPECT_TRUE(bench_.curves().results().front().pools.empty());
  EXPECT_FALSE(field("deployment.tp")->isHidden());
  bench_.session().undo();
  settle(bench_);
  EXPECT_EQ(bench_.curves().results().front().pools, "prefill 2 + decode 2");
}

TEST_F(PoolWindowTest, WhereTimeGoesNamesTheStages) {
  window_.show_view(QStringLiteral("time"));
  const TableData table = window_.view(QStringLiteral("time"))->table();
  ASSERT_EQ(table.headers.size(), 7);
  EXPECT_THAT(
      utf8(table.headers.join(QChar(u'|'))),
      HasSubstr("queue, prefill (seconds)|prefill (seconds)|KV transfer (seconds)|queue, decode (seconds)|decode"));
  const auto points = bench_.curves().curves()[0].points;
  ASSERT_EQ(table.rows.size(), points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    double sum = 0;
    for (int part = 1; part <= 5; ++part) sum += table.rows[i][part].toDouble();
    EXPECT_NEAR(sum, *points[i].row.result.metrics->latency.mean, 1e-6);
  }
}

TEST_F(PoolWindowTest, TheTimelineHasTransfersAndBothPools) {
  window_.show_view(QStringLiteral("timeline"));
  settle(bench_);
  ASSERT_TRUE(QTest::qWaitFor([&] { return bench_.details() != nullptr; }, kPatienceMs));
  settle(bench_);
  View* timeline = window_.view(QStringLiteral("timeline"));
  EXPECT_TRUE(timeline->table().headers.contains(QStringLiteral("transfer from (s)")));
  std::set<std::string> names;
  for (const PlotView* strip : timeline->findChildren<PlotView*>()) {
    for (const PlotSeries& series : strip->content().series) names.insert(utf8(series.name));
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"decode 0", "decode 1", "prefill 0", "prefill 1", "KV transfers"}));
}

TEST_F(PoolWindowTest, MemoryShowsAGpuOfEachPool) {
  window_.show_view(QStringLiteral("memory"));
  const TableData table = window_.view(QStringLiteral("memory"))->table();
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_THAT(utf8(table.rows[0][0]), HasSubstr("prefill"));
  EXPECT_THAT(utf8(table.rows[1][0]), HasSubstr("decode"));
  EXPECT_GT(table.rows[0][1].toDouble(), table.rows[1][1].toDouble()) << "weights over two GPUs, and over four";
}

TEST_F(PoolWindowTest, TheMapSaysThatItVariesOnePool) {
  window_.show_view(QStringLiteral("heatmap"));
  settle(bench_);
  // The map would not apply to pools, so it has no cells and states the reason.
  EXPECT_TRUE(window_.view(QStringLiteral("heatmap"))->table().rows.empty());
}

}  // namespace
}  // namespace plimsoll::gui

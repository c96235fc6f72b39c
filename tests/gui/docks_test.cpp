// SPDX-License-Identifier: Apache-2.0
// The docks that run a child process, with the real program and with scripts that misbehave.
#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QFileInfo>
#include <QLabel>
#include <QLineEdit>
#include <QProcess>
#include <QPushButton>
#include <QSpinBox>
#include <QTableWidget>

#include "gui/core/plan_question.h"
#include "gui/window/decision_dock.h"
#include "gui/window/live_dock.h"
#include "gui/window/main_window.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

class DockTest : public BenchTest {
 protected:
  DockTest() {
    qputenv("XDG_DATA_HOME", folder_.filePath(QStringLiteral("data")).toUtf8());  // hides any calibration of the user
    bench_ = std::make_unique<Workbench>();
    window_ = std::make_unique<MainWindow>(*bench_);
    window_->resize(1300, 850);
    window_->show();
  }
  ~DockTest() override { qunsetenv("PLIMSOLL_PROGRAM"); }

  /// Replaces the program by a shell script.
  void stand_in(const std::string& script) {
    const std::string file = write("plimsoll", "#!/bin/sh\n" + script);
    QFile(qs(file)).setPermissions(QFileDevice::ReadOwner | QFileDevice::WriteOwner | QFileDevice::ExeOwner);
    qputenv("PLIMSOLL_PROGRAM", QByteArray::fromStdString(file));
  }
  bool use_real() {
    const QString program = QStringLiteral(PLIMSOLL_BINARY_DIR) + QStringLiteral("/plimsoll");
    qputenv("PLIMSOLL_PROGRAM", program.toUtf8());
    return QFileInfo::exists(program);
  }
  static bool knows_plan() {
    QProcess list;
    list.start(qEnvironmentVariable("PLIMSOLL_PROGRAM"), {QStringLiteral("--help")});
    return list.waitForFinished(kPatienceMs) && list.readAllStandardOutput().contains("\n  plan ");
  }
  void wait(RunDock& dock, int deadline_ms = kPatienceMs) {
    ASSERT_TRUE(QTest::qWaitFor([&] { return dock.run().state() == ChildRun::State::idle; }, deadline_ms));
    settle(*bench_);
  }
  static std::string texts_of(const QWidget& dock) {
    std::string all;
    for (const QLabel* label : dock.findChildren<QLabel*>()) all += utf8(label->text()) + '\n';
    return all;
  }
  std::unique_ptr<Workbench> bench_;
  std::unique_ptr<MainWindow> window_;
};

TEST_F(DockTest, AStudyForOtherHardwareIsNotMeasuredUnasked) {
  if (!use_real()) GTEST_SKIP() << "build the target plimsoll_exe first";
  open(*bench_, kJumpStart);
  window_->live().measure();
  wait(window_->live());
  EXPECT_THAT(texts_of(window_->live()), HasSubstr("this machine is"));
  EXPECT_THAT(texts_of(window_->live()), HasSubstr("The scenario is for ml.p4d.24xlarge"));
}

TEST_F(DockTest, MeasuredPointsAppearBesideTheirPredictionWithATimeline) {
  if (!use_real()) GTEST_SKIP() << "build the target plimsoll_exe first";
  open(*bench_, kJumpStart);
  window_->live().use_this_machine();
  bench_->change_load(QStringLiteral("closed_loop"), QStringLiteral("1, 2"));
  bench_->set_value(QStringLiteral("workload.requests"), QStringLiteral("4"));
  settle(*bench_);
  ASSERT_FALSE(bench_->failure()) << utf8(bench_->failure()->text);
  ASSERT_EQ(bench_->curves().results().size(), 2U);
  EXPECT_EQ(bench_->curves().results()[0].metrics->input_tokens_mean, 64);
  EXPECT_EQ(field_value(bench_->session().scenario(), "workload.lengths.input").text, QStringLiteral("64"))
      << "the form shows what is simulated";
  EXPECT_THAT(bench_->curves().results()[0].extrapolates, HasSubstr("not calibrated"));
  window_->live().measure();
  wait(window_->live());
  EXPECT_THAT(texts_of(window_->live()), HasSubstr("✓ done"));
  const auto points = overlay_points(bench_->curves(), bench_->tables());
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].row->result.labels.source, "measured");
  const auto all =
      residuals(bench_->curves(), points, *find_metric("output_tokens_per_s"), *find_metric("latency_mean_s"));
  EXPECT_EQ(all.size(), 2U);
  bench_->select({0, 2});
  window_->show_view(QStringLiteral("timeline"));
  settle(*bench_);
  ASSERT_NE(bench_->details(), nullptr);
  ASSERT_TRUE(bench_->details()->measured) << utf8(bench_->details()->measured_from);
  EXPECT_EQ(bench_->details()->measured->requests.size(), 4U);
  EXPECT_FALSE(bench_->details()->measured->steps.empty());
  EXPECT_EQ(request_differences(*bench_->details()).size(), 4U);
}

// A child that reports two points and is then cancelled or crashes: what it measured is in the saved session.
TEST_F(DockTest, WhatWasMeasuredIsSavedAndRestored) {
  open(*bench_, kJumpStart);
  stand_in(R"(echo '{"v":1,"type":"point","index":0,"model":"llama-2-7b","hardware":"ml.p4d.24xlarge","tp":4,)"
           R"("replicas":1,"load_kind":"jumpstart","load_value":64,"output_tokens_per_s":1900}';)"
           R"( echo '{"v":1,"type":"point","index":1,"model":"llama-2-7b","hardware":"ml.p4d.24xlarge","tp":4,)"
           R"("replicas":1,"load_kind":"jumpstart","load_value":128,"output_tokens_per_s":2100}'; kill -SEGV $$)");
  ASSERT_FALSE(bench_->session().is_modified());
  window_->live().measure();
  wait(window_->live());
  ASSERT_EQ(bench_->session().state().runs.size(), 1U);
  EXPECT_EQ(bench_->session().state().runs[0]->rows.size(), 2U);
  EXPECT_TRUE(bench_->session().is_modified());
  EXPECT_TRUE(window_->windowTitle().contains(QStringLiteral(" *"))) << utf8(window_->windowTitle());
  const QString file = folder_.filePath(QStringLiteral("mine.plimsoll-session.yaml"));
  window_->save_to(file);
  EXPECT_FALSE(bench_->session().is_modified());
  Workbench again;
  again.open(file);
  settle(again);
  std::size_t own = 0;
  for (const OverlayPoint& point : overlay_points(again.curves(), again.tables()))
    own += point.table->published ? 0 : 1;
  EXPECT_EQ(own, 2U) << "the points are on the curves again";
}

TEST_F(DockTest, AServerIsMeasuredInsteadOfThisMachine) {
  open(*bench_, kJumpStart);  // for other hardware: use_this_machine() must not change it for a server
  const QString arguments = folder_.filePath(QStringLiteral("arguments"));
  stand_in(R"(echo "$@" > )" + utf8(arguments) + R"(; echo '{"v":1,"type":"done","exit":0}')");
  window_->live().endpoint().setText(QStringLiteral(" http://127.0.0.1:8000 "));
  EXPECT_THAT(texts_of(window_->live()), HasSubstr("Sends the scenario's load to the server"));
  window_->live().measure();
  wait(window_->live());
  QFile file(arguments);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  const std::string given = file.readAll().toStdString();
  EXPECT_THAT(given, HasSubstr("--endpoint http://127.0.0.1:8000"));
  EXPECT_EQ(given.find("--device"), std::string::npos);
}

TEST_F(DockTest, ACancelledMeasurementKeepsWhatItHad) {
  if (!use_real()) GTEST_SKIP() << "build the target plimsoll_exe first";
  window_->live().use_this_machine();
  bench_->change_load(QStringLiteral("closed_loop"), QStringLiteral("1, 2"));
  bench_->set_value(QStringLiteral("workload.requests"), QStringLiteral("2000"));
  window_->live().measure();
  bool begun = false;
  QObject::connect(&window_->live().run(), &ChildRun::progressed, &window_->live(),
                   [&](double done, double, double) { begun = begun || done > 0; });
  ASSERT_TRUE(
      QTest::qWaitFor([&] { return begun || window_->live().run().state() == ChildRun::State::idle; }, kPatienceMs));
  ASSERT_TRUE(begun) << texts_of(window_->live());
  window_->live().cancel();
  wait(window_->live());
  EXPECT_THAT(texts_of(window_->live()), HasSubstr("cancelled"));
}

TEST_F(DockTest, CalibrationIsUsedAtOnce) {
  // The script "calibrates" by copying the file that the real program would have written for this machine.
  open(*bench_, kJumpStart);
  window_->live().use_this_machine();
  settle(*bench_);
  stand_in(R"(echo '{"v":1,"type":"progress","done":50,"total":100,"eta_s":1}'; echo "$@" > )" +
           utf8(folder_.filePath(QStringLiteral("arguments"))) + R"(; echo '{"v":1,"type":"done","exit":0}')");
  const auto before = bench_->catalogue();
  window_->live().seconds().setValue(7);
  window_->live().calibrate();
  wait(window_->live());
  QFile arguments(folder_.filePath(QStringLiteral("arguments")));
  ASSERT_TRUE(arguments.open(QIODevice::ReadOnly));
  EXPECT_EQ(arguments.readAll().trimmed(), "calibrate --device cpu --seconds 7 --progress jsonl");
  EXPECT_NE(bench_->catalogue(), before);
  EXPECT_THAT(texts_of(window_->live()), HasSubstr("✓ calibrated"));
}

TEST_F(DockTest, WhateverTheChildDoesTheDockSaysSo) {
  open(*bench_, kJumpStart);
  const auto said = [&](const std::string& script) {
    stand_in(script);
    window_->live().measure();
    wait(window_->live());
    return texts_of(window_->live());
  };
  EXPECT_THAT(said("kill -SEGV $$"), HasSubstr("✗ the process crashed"));
  EXPECT_THAT(said("echo garbage; exit 0"), HasSubstr("✗ the process ended without reporting"));
  EXPECT_THAT(said("echo 'out of memory' >&2; exit 3"), HasSubstr("✗ out of memory"));
  EXPECT_THAT(said(R"(echo '{"v":1,"type":"error","code":3,"text":"no GPU"}'; exit 3)"), HasSubstr("✗ no GPU"));
  qputenv("PLIMSOLL_PROGRAM", "/nowhere/plimsoll");
  window_->live().measure();
  wait(window_->live());
  EXPECT_THAT(texts_of(window_->live()), HasSubstr("cannot be started"));
  EXPECT_EQ(bench_->curves().results().size(), 40U) << "nothing is lost";
}

constexpr const char* kPlan =
    R"(cat <<'END'
{"v":1,"type":"progress","t_s":0.1,"done":1,"total":2,"eta_s":1}
{"v":1,"type":"point","t_s":0.1,"index":0,"tp":4,"load_value":8}
{"v":1,"type":"ranking","t_s":0.2,"question":0,"rank":1,"deployment":"tp 4 x 2","meets_slo":true,)"
    R"("objective":57.5,"objective_unit":"clients","usd_per_hour":37.7,"gpus":8,"tp":4,"replicas":2,)"
    R"("hardware":"ml.p4d.24xlarge","slo_used":0.9,"slo_check":"p90_latency_per_token","stage":"confirmed",)"
    R"("verdict":"wins","settings":{"deployment.tp":"4","deployment.replicas":"2","scheduler.max_running":"64"}}
{"v":1,"type":"ranking","t_s":0.2,"question":0,"rank":10,"deployment":"tp 8 x 1","meets_slo":false,)"
    R"("objective":20,"gpus":8,"tp":8,"replicas":1,"hardware":"ml.p4d.24xlarge","slo_used":1.2,)"
    R"("slo_check":"p90_latency_per_token","stage":"screened","verdict":"all-reduce"}
{"v":1,"type":"answer","t_s":0.3,"question":0,"objective":"cost","objective_unit":"USD/h",)"
    R"("winner":{"deployment":"tp 4 x 2","price":"us-east-1, 2024","capacity":{"load":57.5,"ci":1,)"
    R"("passing":57,"failing":58,"unit":"clients"},"deploy":{"tgi.env":"NUM_SHARD=4",)"
    R"("vllm.sh":"vllm serve"}},"sensitivity":[{"change":"load +10 %","winner":"tp 8 x 1","same":false,)"
    R"("slo_used":1.1,"slo_check":"x"}],"text":"the answer"}
{"v":1,"type":"done","t_s":0.3,"exit":0}
END
)";

TEST_F(DockTest, ThePlannersAnswerBecomesARankingThatCanBeUsed) {
  open(*bench_, kJumpStart);
  bench_->set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  stand_in(kPlan);
  DecisionDock& dock = window_->decision();
  dock.plan();
  wait(dock);
  EXPECT_THAT(texts_of(dock), HasSubstr("✓ Best: tp 4 x 2"));
  EXPECT_THAT(texts_of(dock), HasSubstr("Carries 57.5 clients within the SLO"))
      << "in the load's unit, not in the objective's";
  EXPECT_THAT(texts_of(dock), HasSubstr("load +10 %: tp 8 x 1 would win"));
  ASSERT_EQ(dock.ranking().rowCount(), 2);
  EXPECT_EQ(dock.ranking().item(0, 0)->text(), QStringLiteral("1")) << "rank 1 before rank 10: numbers sort as numbers";
  const std::vector<QString> first = {QStringLiteral("1"),   QStringLiteral("ml.p4d.24xlarge"),
                                      QStringLiteral("✓"),   QStringLiteral("4"),
                                      QStringLiteral("2"),   QStringLiteral("64"),
                                      QStringLiteral("57.5")};
  for (std::size_t c = 0; c < first.size(); ++c)
    EXPECT_EQ(dock.ranking().item(0, static_cast<int>(c))->text(), first[c]);
  EXPECT_EQ(dock.ranking().horizontalHeaderItem(6)->text(), QStringLiteral("clients"));
  EXPECT_EQ(dock.ranking().item(0, 7)->text(), QStringLiteral("10 %")) << "the winner uses 0.9 of its limit";
  dock.ranking().setCurrentCell(1, 1);
  EXPECT_THAT(texts_of(dock), HasSubstr("tp 8 x 1: all-reduce; p90_latency_per_token uses 120 % of its limit"));
  EXPECT_EQ(dock.table().rows.size(), 2U);
  dock.use(0);
  settle(*bench_);
  EXPECT_EQ(field_value(bench_->session().scenario(), "deployment.tp").text, QStringLiteral("4"));
  EXPECT_EQ(field_value(bench_->session().scenario(), "deployment.replicas").text, QStringLiteral("2"));
  EXPECT_EQ(field_value(bench_->session().scenario(), "scheduler.max_running").text, QStringLiteral("64"));
  EXPECT_EQ(bench_->curves().results().size(), 10U);
  for (QPushButton* button : dock.findChildren<QPushButton*>()) {
    if (button->text().remove(QChar(u'&')) == QStringLiteral("Copy")) button->click();
  }
  EXPECT_EQ(QApplication::clipboard()->text(), QStringLiteral("NUM_SHARD=4"));
}

// A search that reports two first looks and then waits until it is cancelled. The look within the SLO leads at once,
// although it came last. After the cancellation, no rank is final.
TEST_F(DockTest, FirstLooksAreRankedWhileTheSearchRuns) {
  open(*bench_, kJumpStart);
  bench_->set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  stand_in(
      R"(cat <<'END'
{"v":1,"type":"candidate","question":0,"rank":null,"deployment":"tp 8 x 1","meets_slo":false,"objective":9,)"
      R"("objective_unit":"USD/h","slo_used":1.5,"stage":"screened","hardware":"ml.p4d.24xlarge","tp":8,"verdict":null}
{"v":1,"type":"candidate","question":0,"rank":null,"deployment":"tp 4 x 2","meets_slo":true,"objective":37,)"
      R"("objective_unit":"USD/h","slo_used":0.8,"stage":"screened","hardware":"ml.p4d.24xlarge","tp":4,"verdict":null}
END
read line; echo '{"v":1,"type":"done","exit":130}'; exit 130
)");
  DecisionDock& dock = window_->decision();
  dock.plan();
  ASSERT_TRUE(QTest::qWaitFor([&] { return dock.ranking().rowCount() == 2; }, kPatienceMs));
  EXPECT_EQ(dock.run().state(), ChildRun::State::running);
  EXPECT_EQ(dock.ranking().item(0, 0)->text(), QStringLiteral("(1)"));
  EXPECT_EQ(dock.ranking().item(0, 3)->text(), QStringLiteral("4"));
  EXPECT_EQ(dock.ranking().item(1, 7)->text(), QStringLiteral("-50 %"));
  EXPECT_THAT(utf8(dock.answer()), HasSubstr("2 deployments simulated so far. Leading: tp 4 x 2"));
  dock.cancel();
  wait(dock);
  ASSERT_EQ(dock.ranking().rowCount(), 2);
  EXPECT_EQ(dock.ranking().item(0, 0)->text(), QStringLiteral("(1) ?"));
  EXPECT_EQ(dock.ranking().item(0, 2)->text(), QStringLiteral("✓ ?"));
}

TEST_F(DockTest, ACancelledSearchHasNoFinalWinner) {
  open(*bench_, kJumpStart);
  bench_->set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  std::string script = kPlan;
  const std::string answer = R"("type":"answer",)";
  script.replace(script.find(answer), answer.size(), answer + R"("cancelled":true,)");
  stand_in(script);
  DecisionDock& dock = window_->decision();
  dock.plan();
  wait(dock);
  EXPECT_EQ(dock.answer().count(QChar(u'✓')), 0) << utf8(dock.answer());
  EXPECT_THAT(utf8(dock.answer()), HasSubstr("Best so far, because the search was cancelled: tp 4 x 2"));
  EXPECT_THAT(utf8(dock.answer()), HasSubstr("p90_latency_per_token uses 90 % of its limit")) << "the winner's margin";
  EXPECT_EQ(dock.ranking().item(0, 0)->text(), QStringLiteral("1 ?"));
}

TEST_F(DockTest, APlanNeedsAnSlo) {
  open(*bench_, kJumpStart);
  stand_in(kPlan);
  DecisionDock& dock = window_->decision();
  dock.plan();
  EXPECT_EQ(dock.run().state(), ChildRun::State::idle);
  const QString said = qs(texts_of(dock));
  EXPECT_EQ(said.count(QStringLiteral("state an SLO")), 1) << "once is enough: " << utf8(said);
  const auto buttons = dock.findChildren<QPushButton*>();
  const auto plan = std::find_if(buttons.begin(), buttons.end(),
                                 [](const QPushButton* b) { return b->text() == QStringLiteral("Pl&an"); });
  ASSERT_NE(plan, buttons.end());
  EXPECT_FALSE((*plan)->isEnabled());
  EXPECT_THAT(utf8((*plan)->toolTip()), HasSubstr("state an SLO"));
  window_->findChild<QWidget*>(QStringLiteral("decision"))->show();
  bench_->set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  EXPECT_TRUE((*plan)->isEnabled());
  EXPECT_EQ((*plan)->toolTip(), (*plan)->accessibleDescription());
}

TEST_F(DockTest, TheSloLineBecomesTheStudysSlo) {
  ViewState view;
  view.limit = 50;  // ms of p90 latency per token
  const study::Study study = make_study(plan_scenario(open_scenario(kJumpStart), view), bench_->catalogue());
  EXPECT_EQ(study.point_count(), 1U) << "one question, not one a load";
  EXPECT_NE(study.resolved_yaml().find("p90_latency_per_token"), std::string::npos) << study.resolved_yaml();
  EXPECT_NE(study.resolved_yaml().find("capacity"), std::string::npos);
}

TEST_F(DockTest, TheDockSaysWhatItAsksAndWhenTheAnswerIsOld) {
  open(*bench_, kJumpStart);
  stand_in(kPlan);
  DecisionDock& dock = window_->decision();
  dock.window()->findChild<QWidget*>(QStringLiteral("decision"))->show();
  EXPECT_THAT(texts_of(dock), HasSubstr("To plan, state an SLO"));
  bench_->set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  EXPECT_THAT(texts_of(dock), HasSubstr("Asks for the largest load on one ml.p4d.24xlarge"));
  dock.plan();
  wait(dock);
  EXPECT_THAT(texts_of(dock), HasSubstr("✓ done"));
  bench_->set_view({}, {}, [](ViewState& v) { v.limit = 60; });
  EXPECT_THAT(texts_of(dock), HasSubstr("⚠ The question has changed since"));
  bench_->session().undo();
  EXPECT_THAT(texts_of(dock), HasSubstr("✓ done"));
  dock.use(0);
  EXPECT_THAT(texts_of(dock), HasSubstr("✓ done")) << "its own answer is not another question";
}

// It used to take three: the copy, its deployment and its name.
TEST_F(DockTest, AddingThePlansAnswerIsOneStep) {
  open(*bench_, kJumpStart);
  stand_in(kPlan);
  bench_->set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  window_->decision().plan();
  wait(window_->decision());
  const std::string before = session_text(bench_->session().state());
  window_->decision().add_scenario(0);
  settle(*bench_);
  ASSERT_EQ(bench_->session().state().scenarios.size(), 2U);
  EXPECT_EQ(bench_->session().scenario().name, QStringLiteral("planned"));
  EXPECT_EQ(field_value(bench_->session().scenario(), "deployment.replicas").text, QStringLiteral("2"));
  bench_->session().undo();
  EXPECT_EQ(session_text(bench_->session().state()), before);
}

TEST_F(DockTest, ThePlannerItselfAnswersTheJumpStartQuestion) {
  if (!use_real() || !knows_plan()) GTEST_SKIP() << "this program has no planner yet";
  open(*bench_, kJumpStart);
  bench_->set_value(QStringLiteral("search"),
                    QStringLiteral("{objective: capacity, tp: [1, 4], replicas: [1], max_running: [64, 128]}"));
  bench_->set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  window_->decision().plan();
  wait(window_->decision());
  EXPECT_THAT(texts_of(window_->decision()), HasSubstr("✓ Best: "));
  EXPECT_EQ(window_->decision().ranking().rowCount(), 4);
  window_->decision().use(0);
  settle(*bench_);
  EXPECT_FALSE(bench_->failure()) << utf8(bench_->failure()->text);
  const QString limit = field_value(bench_->session().scenario(), "scheduler.max_running").text;
  EXPECT_TRUE(limit == QStringLiteral("64") || limit == QStringLiteral("128")) << utf8(limit);
}

}  // namespace
}  // namespace plimsoll::gui

// SPDX-License-Identifier: Apache-2.0
// The form as a whole: settings without a field, loads that it does not edit, and its place in a tall window.
#include <QApplication>
#include <QComboBox>
#include <QLineEdit>
#include <QScrollArea>
#include <QSlider>
#include <QWheelEvent>

#include "gui/core/pool_form.h"
#include "gui/core/scenario.h"
#include "gui/window/fold_group.h"
#include "gui/window/main_window.h"
#include "gui/window/scenario_dock.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const configs::Catalogue> catalogue() {
  static const auto one = std::make_shared<const configs::Catalogue>();
  return one;
}

constexpr const char* kStudy = R"(model: llama-2-7b
hardware: ml.p4d.24xlarge
engine: tgi-1.1
price_date: 2025-04
deployment: {tp: 4, failures: {mean_time_between: 24 h, restart: 5 min}}
scheduler: {max_input: 4000}
workload:
  load: {gamma: {rate: 4 /s, cv: 2}}
  lengths: {input: 256, output: 64}
  requests: 200
  warmup: 1 s
limits: {timeout: 60 s, retries: 2}
)";

Scenario scenario_of(const std::string& text) {
  Scenario scenario;
  scenario.document = configs::Document::from_text(text, "study.yaml");
  scenario.file = "study.yaml";
  return scenario;
}

std::map<std::string, std::string> listed(const Scenario& scenario) {
  std::map<std::string, std::string> out;
  for (const OtherSetting& setting : other_settings(scenario)) out[setting.path] = setting.value;
  return out;
}

// Every setting that affects the figures is in a field or in the list.
TEST(OtherSettingsTest, AreThoseWithoutAField) {
  const std::map<std::string, std::string> expected = {
      {"scheduler.max_input", "4000"}, {"price_date", "2025-04"},
      {"workload.load.gamma.cv", "2"}, {"workload.warmup", "1 s"},
      {"limits.retries", "2"},         {"deployment.failures", "{mean_time_between: 24 h, restart: 5 min}"}};
  EXPECT_EQ(listed(scenario_of(kStudy)), expected);
  EXPECT_TRUE(other_settings(new_scenario()).empty());
}

TEST(OtherSettingsTest, CanBeRemovedInAnyOrder) {
  for (const bool backwards : {false, true}) {
    Scenario scenario = scenario_of(kStudy);
    set_field(scenario, "deployment.tp", QStringLiteral("8"));
    set_load(scenario, QStringLiteral("gamma"), QStringLiteral("2"));
    auto all = other_settings(scenario);
    EXPECT_EQ(all.size(), 6U) << "another rate keeps the load's cv, which has no field";
    if (backwards) std::reverse(all.begin(), all.end());
    for (const OtherSetting& setting : all) {
      remove_setting(scenario, setting.path);
      EXPECT_EQ(listed(scenario).count(setting.path), 0U) << setting.path;
    }
    EXPECT_TRUE(other_settings(scenario).empty());
    const study::PointSpec point = make_study(scenario, catalogue()).point(0);
    EXPECT_EQ(point.deployment.tp, 8) << "the fields stay";
    EXPECT_EQ(point.limits.timeout.count(), 60);
    EXPECT_TRUE(point.deployment.is_fixed());
    EXPECT_EQ(load::load_value(point.workload.load), 2);
  }
}

TEST(OtherSettingsTest, TheLoadsOwnCanBeRemovedToo) {
  Scenario scenario = scenario_of(kStudy);
  remove_setting(scenario, "workload.load.gamma.cv");
  EXPECT_EQ(std::get<load::GammaArrivals>(make_study(scenario, catalogue()).point(0).workload.load).cv, 1);
}

class FormTest : public BenchTest {};

// A trace is an entry of the list, so another kind of load can be chosen without undoing it.
TEST_F(FormTest, ATraceCanBeLeftForAnotherLoad) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  const std::string trace = write("requests.csv",
                                  "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.000,100,10\n"
                                  "2023-11-16 18:15:47.000,120,20\n2023-11-16 18:15:48.500,90,15\n");
  bench.open(qs(trace));
  settle(bench);
  QComboBox* kind = nullptr;
  for (QComboBox* box : window.scenario().findChildren<QComboBox*>())
    if (box->accessibleName() == QStringLiteral("Kind of load")) kind = box;
  ASSERT_NE(kind, nullptr);
  EXPECT_TRUE(kind->isEnabled());
  EXPECT_THAT(utf8(kind->currentText()), HasSubstr("Trace"));
  EXPECT_EQ(listed(bench.session().scenario()).count("workload.load.trace.file"), 1U) << "its name is shown";
  const int poisson = kind->findData(QStringLiteral("poisson"));
  kind->setCurrentIndex(poisson);
  Q_EMIT kind->activated(poisson);
  settle(bench);
  EXPECT_FALSE(bench.failure()) << utf8(bench.failure() ? bench.failure()->text : QString());
  EXPECT_EQ(utf8(load_field(bench.session().scenario()).kind), "poisson");
  EXPECT_EQ(kind->findData(QStringLiteral("trace")), -1) << "it has no trace any more";
}

// There is no horizontal scroll bar: what is wider than the form would be cut off.
TEST_F(FormTest, NothingOfTheFormIsCutOff) {
  Workbench bench;
  MainWindow window(bench);
  window.resize(1024, 700);
  window.show();
  for (const bool pools : {false, true}) {
    bench.session().edit({}, {}, [&](SessionState& s) {
      s.scenarios = {new_scenario()};
      set_field(s.scenarios[0], "slo", QStringLiteral("{p99_ttft: 2000 ms, p90_latency_per_token: 50 ms}"));
      set_pools(s.scenarios[0], pools);
    });
    settle(bench);
    const auto* scroll = window.scenario().findChild<QScrollArea*>();
    EXPECT_LE(scroll->widget()->minimumSizeHint().width(), scroll->viewport()->width()) << pools;
  }
}

// All room of a tall window is below the form; it used to spread the groups over the whole height.
TEST_F(FormTest, ATallWindowKeepsTheGroupsTogether) {
  Workbench bench;
  MainWindow window(bench);
  window.resize(1200, 3000);
  window.show();
  settle(bench);
  const auto& groups = window.scenario().groups();
  for (const FoldGroup* group : groups) EXPECT_LE(group->height(), group->sizeHint().height() + 1);
  const ScenarioList& list = window.scenario().scenarios();
  EXPECT_LE(list.height(), list.sizeHint().height() + 1);
  int height = 0;
  for (const FoldGroup* group : groups) height += group->height();
  const int span = groups.back()->geometry().bottom() - groups.front()->geometry().top();
  EXPECT_LE(span, height + 20 * static_cast<int>(groups.size()));
}

// A wheel that scrolls the form passes over fields. It used to change them: 512 input tokens became 128.
TEST_F(FormTest, TheWheelScrollsTheFormAndChangesNoField) {
  Workbench bench;
  MainWindow window(bench);
  window.resize(1100, 500);  // lower than the form
  window.show();
  bench.session().edit({}, {}, [](SessionState& s) {
    s.scenarios = {new_scenario()};
    set_field(s.scenarios[0], "slo", QStringLiteral("{p99_ttft: 2000 ms}"));
  });
  settle(bench);
  const std::string before = session_text(bench.session().state());
  const auto* scroll = window.scenario().findChild<QScrollArea*>();
  const QList<QWidget*> fields = scroll->widget()->findChildren<QWidget*>();
  int turned = 0;
  for (QWidget* field : fields) {
    if (qobject_cast<QComboBox*>(field) == nullptr && qobject_cast<QSlider*>(field) == nullptr) continue;
    if (!field->isVisible()) continue;
    for (const int notch : {-120, 120}) {
      const QPoint middle = field->rect().center();
      QWheelEvent event(middle, field->mapToGlobal(middle), {}, {0, notch}, Qt::NoButton, Qt::NoModifier,
                        Qt::NoScrollPhase, false);
      QApplication::sendEvent(field, &event);
      EXPECT_FALSE(event.isAccepted()) << "so it goes on to the form: " << utf8(field->accessibleName());
      ++turned;
    }
  }
  // Model, weights, hardware, engine, TP, replicas and batch with their sliders, the load's kind, a limit's statistic
  // and metric, the margin, the lengths and the requests: two notches each.
  EXPECT_GE(turned, 2 * 15);
  settle(bench);
  EXPECT_EQ(session_text(bench.session().state()), before);
}

}  // namespace
}  // namespace plimsoll::gui

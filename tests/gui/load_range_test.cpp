// SPDX-License-Identifier: Apache-2.0
// Loads found by the program: from a small one up to saturation, or to the first that misses a limit.
#include "gui/core/load_range.h"

#include <QApplication>
#include <QPlainTextEdit>
#include <algorithm>
#include <cmath>

#include "gui/core/answer_rows.h"
#include "gui/window/main_window.h"
#include "gui/window/yaml_dock.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

class LoadRangeTest : public BenchTest {
 protected:
  Scenario scenario(const std::string& load, const std::string& more = "") {
    return open_scenario(write("load.yaml",
                               "study: load\nmodel: llama-3.1-8b\nhardware: p5.48xlarge\n"
                               "engine: vllm-0.12\ndeployment: {tp: 1, replicas: 1}\n" +
                                   more + "workload:\n  load: " + load +
                                   "\n  lengths: {input: 128, output: 64}\n  requests: 400\n"));
  }
  std::vector<double> loads(const Scenario& scenario, const DrawnLimit& limit = {find_metric("itl_p99_s"), 0}) {
    return find_loads(scenario, catalogue_, limit, control_);
  }
  std::shared_ptr<const configs::Catalogue> catalogue_ =
      std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  study::RunControl control_;
};

TEST_F(LoadRangeTest, ClientsDoubleUntilThroughputNoLongerGrows) {
  const auto found = loads(scenario("{closed_loop: {concurrency: 1}}", "scheduler: {max_running: 16}\n"));
  ASSERT_GE(found.size(), 5U);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], std::pow(2.0, static_cast<double>(i)));
  EXPECT_GE(found.back(), 32) << "beyond the batch limit more clients only wait";
  EXPECT_LE(found.back(), 64);
}

TEST_F(LoadRangeTest, ALimitEndsTheRangeAtTheFirstLoadBeyond) {
  const Scenario tight = scenario("{closed_loop: {concurrency: 1}}", "slo: {p99_itl: 12 ms}\n");
  const auto found = loads(tight), free = loads(scenario("{closed_loop: {concurrency: 1}}"));
  EXPECT_LT(found.back(), free.back());
  Workbench bench;
  SessionState state = default_session();
  state.scenarios = {tight};
  bench.session().replace(state);
  QString values;
  for (const double load : found) values += QString::number(load) + QStringLiteral(" ");
  bench.change_load(QStringLiteral("closed_loop"), values);
  settle(bench);
  const auto rows = answer_rows(bench, drawn_limit(bench.session().state().view));
  ASSERT_TRUE(rows[0].answer && rows[0].answer->carried);
  EXPECT_FALSE(rows[0].answer->every) << "the last load shows where the limit is crossed";
}

TEST_F(LoadRangeTest, RatesEndAtTheHighestThatIsCarried) {
  const auto found = loads(scenario("{poisson: {rate: 1 /s}}", "scheduler: {max_running: 8}\n"));
  ASSERT_GE(found.size(), 6U);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
  Workbench bench;
  SessionState state = default_session();
  state.scenarios = {scenario("{poisson: {rate: 1 /s}}", "scheduler: {max_running: 8}\n")};
  bench.session().replace(state);
  const auto unstable_at = [&](double rate) {
    bench.change_load(QStringLiteral("poisson"), QString::number(rate));
    settle(bench);
    const auto steady = bench.curves().results().front().metrics->steady;
    return steady.grows || steady.verdict == sched::Steadiness::unstable;
  };
  EXPECT_FALSE(unstable_at(0.9 * found.back()));
  EXPECT_TRUE(unstable_at(1.3 * found.back())) << "not much more can be carried";
}

// Forty requests are served within a moment, so they end long after the last one was sent at any rate.
TEST_F(LoadRangeTest, AShortRunDoesNotEndTheRange) {
  Scenario run = scenario("{poisson: {rate: 1 /s}}");
  set_field(run, "workload.requests", QStringLiteral("4000"));
  const auto enough = loads(run);
  set_field(run, "workload.requests", QStringLiteral("40"));
  const auto few = loads(run);
  ASSERT_FALSE(enough.empty() || few.empty());
  EXPECT_NEAR(few.back() / enough.back(), 1, 0.1) << few.back() << " against " << enough.back();
}

TEST_F(LoadRangeTest, WhatCannotRunHasNoLoads) {
  Scenario huge = scenario("{closed_loop: {concurrency: 1}}");
  set_field(huge, "model", QStringLiteral("llama-3.1-405b"));
  EXPECT_TRUE(loads(huge).empty());
  control_.cancel();
  EXPECT_TRUE(loads(scenario("{closed_loop: {concurrency: 1}}")).empty());
}

// The loads belong to the change that made them necessary: undo takes both back, and they come back the same.
TEST_F(LoadRangeTest, AFollowingScenarioFindsItsLoadsAfterEachChange) {
  Workbench bench;
  SessionState state = default_session();
  state.scenarios = {scenario("{closed_loop: {concurrency: 1}}", "scheduler: {max_running: 64}\n")};
  set_load(state.scenarios[0], QStringLiteral("closed_loop"), QStringLiteral("1, 2"));
  bench.session().replace(state);
  const auto rest = [&] {
    ASSERT_TRUE(QTest::qWaitFor(
        [&] {
          QCoreApplication::processEvents();
          return !bench.is_busy() && !bench.tasks().busy();
        },
        kPatienceMs));
    settle(bench);
  };
  const auto values = [&] { return utf8(load_field(bench.session().scenario()).values); };
  rest();
  EXPECT_EQ(values(), "1, 2") << "stated loads stay";
  bench.follow_load(true);
  rest();
  const std::string wide = values();
  EXPECT_THAT(wide, HasSubstr("1, 2, 4, 8"));
  bench.set_value(QStringLiteral("scheduler.max_running"), QStringLiteral("4"));
  rest();
  EXPECT_LT(values().size(), wide.size()) << values();
  bench.session().undo();
  rest();
  EXPECT_EQ(values(), wide);
  EXPECT_EQ(utf8(field_value(bench.session().scenario(), "scheduler.max_running").text), "64");
  bench.change_load(QStringLiteral("closed_loop"), QStringLiteral("3, 5"));
  rest();
  EXPECT_EQ(values(), "3, 5");
  EXPECT_FALSE(bench.session().scenario().finds_load);
}

class YamlTest : public BenchTest {
 protected:
  YamlTest() : window_(bench_) {
    window_.show();
    open(bench_, kJumpStart);
    for (QWidget* parent = &window_.yaml(); parent != nullptr; parent = parent->parentWidget()) parent->show();
    QCoreApplication::processEvents();
  }
  [[nodiscard]] std::string text() { return utf8(window_.yaml().editor().toPlainText()); }
  void type(const std::string& from, const std::string& to) {
    QString now = window_.yaml().editor().toPlainText();
    ASSERT_TRUE(now.contains(qs(from))) << utf8(now);
    QTextCursor cursor(window_.yaml().editor().document());
    cursor.select(QTextCursor::Document);
    cursor.insertText(now.replace(qs(from), qs(to)));
    static_cast<void>(window_.yaml().apply());
    settle(bench_);
  }
  Workbench bench_;
  MainWindow window_;
};

TEST_F(YamlTest, TheFormAndTheTextShowEachOthersChanges) {
  EXPECT_THAT(text(), HasSubstr("model: llama-2-7b"));
  bench_.set_value(QStringLiteral("scheduler.max_running"), QStringLiteral("48"));
  settle(bench_);
  EXPECT_THAT(text(), HasSubstr("max_running: 48"));
  type("max_running: 48", "max_running: 24  # smaller");
  EXPECT_EQ(utf8(field_value(bench_.session().scenario(), "scheduler.max_running").text), "24");
  EXPECT_THAT(text(), HasSubstr("# smaller")) << "the text stays as it was typed";
  EXPECT_EQ(utf8(window_.yaml().problem()), "");
  bench_.session().undo();
  settle(bench_);
  EXPECT_THAT(text(), HasSubstr("max_running: 48"));
}

TEST_F(YamlTest, WhatIsNotYamlChangesNothingAndNamesItsLine) {
  const std::string before = bench_.study_text();
  type("model: llama-2-7b", "model: [");
  EXPECT_EQ(bench_.study_text(), before);
  EXPECT_THAT(utf8(window_.yaml().problem()), ::testing::StartsWith("✗ Line "));
  // A change in the form replaces the text that could not be read.
  bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("2"));
  settle(bench_);
  EXPECT_EQ(utf8(window_.yaml().problem()), "");
}

TEST_F(YamlTest, AWrongValueIsNamedWithItsLine) {
  type("model: llama-2-7b", "model: no-such-model");
  ASSERT_TRUE(bench_.failure());
  const auto lines = QString::fromStdString(text()).split(QChar(u'\n'));
  const auto line = lines.indexOf(QStringLiteral("model: no-such-model")) + 1;
  EXPECT_THAT(utf8(window_.yaml().problem()), HasSubstr("Line " + std::to_string(line) + ": "));
  type("model: no-such-model", "model: llama-2-7b");
  EXPECT_FALSE(bench_.failure());
  EXPECT_EQ(utf8(window_.yaml().problem()), "");
}

}  // namespace
}  // namespace plimsoll::gui

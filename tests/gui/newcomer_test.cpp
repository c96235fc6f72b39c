// SPDX-License-Identifier: Apache-2.0
// A newcomer's tasks, done with keys and mouse only. Also tests that the keyboard and assistive technology reach
// everything.
#include <QAccessible>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QRegularExpression>
#include <QSlider>
#include <QTabWidget>
#include <map>
#include <set>

#include "gui/window/curve_words.h"
#include "gui/window/curves_view.h"
#include "gui/window/main_window.h"
#include "gui/window/scenario_dock.h"
#include "study/run/run_study.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class NewcomerTest : public BenchTest {
 protected:
  NewcomerTest() : window_(bench_) {
    window_.resize(1500, 950);
    window_.show();
    QApplication::setActiveWindow(&window_);
  }
  void type_into(const QString& field, const QString& text) {
    QLineEdit* line = window_.scenario().field(field)->box()->lineEdit();
    line->setFocus();
    line->selectAll();
    QTest::keyClicks(line, text);
    QTest::keyClick(line, Qt::Key_Return);
    settle(bench_);
  }
  [[nodiscard]] QString answer() const { return limit_answer(bench_, drawn_limit(bench_.session().state().view)); }
  /// For each TP degree, the answer is between its last point within the SLO line and the first one beyond.
  void expect_crossings(const QString& all) {
    const Metric& metric = *find_metric("latency_per_token_p90_s");
    static const QRegularExpression said(QStringLiteral("tp \\d: ✓ about (\\d+) clients, ([\\d\u202f ]+) tokens/s"));
    QRegularExpressionMatchIterator found = said.globalMatch(all);
    for (const Curve& curve : bench_.curves().curves()) {
      ASSERT_TRUE(found.hasNext()) << utf8(all);
      const QRegularExpressionMatch match = found.next();
      const auto beyond = std::find_if(curve.points.begin(), curve.points.end(),
                                       [&](const LanePoint& p) { return *value_of(p.row, metric) > 50; });
      ASSERT_TRUE(beyond != curve.points.begin() && beyond != curve.points.end()) << utf8(curve.name);
      const auto load = match.captured(1).toDouble();
      EXPECT_GE(load, (beyond - 1)->row.result.labels.load_value) << utf8(all);
      EXPECT_LT(load, beyond->row.result.labels.load_value) << utf8(all);
      const double tokens = match.captured(2).remove(QRegularExpression(QStringLiteral("\\D"))).toDouble(),
                   rounding = tokens * 0.005;
      EXPECT_GE(tokens + rounding, (beyond - 1)->row.result.metrics->output_tokens_per_s) << utf8(all);
      EXPECT_LE(tokens - rounding, beyond->row.result.metrics->output_tokens_per_s) << utf8(all);
    }
  }
  Workbench bench_;
  MainWindow window_;
};

// The question: Llama 2 7B on a p4d, under 50 ms per token. Which TP degree, how many replicas, which batch limit?
TEST_F(NewcomerTest, TheJumpStartQuestionIsAnsweredByTypingAndSliding) {
  open(bench_, kJumpStart);
  auto* limit = window_.curves().findChild<QDoubleSpinBox*>();
  limit->setFocus();
  limit->selectAll();
  QTest::keyClicks(limit, QStringLiteral("50"));
  QTest::keyClick(limit, Qt::Key_Return);
  settle(bench_);
  EXPECT_EQ(bench_.session().state().view.limit, 50);
  const QString all = answer();
  for (const char* const tp : {"tp 1: ", "tp 2: ", "tp 4: ", "tp 8: "}) EXPECT_TRUE(all.contains(qs(tp))) << utf8(all);
  expect_crossings(all);

  QSlider* tp = window_.scenario().field(QStringLiteral("deployment.tp"))->slider();
  tp->setFocus();
  QTest::keyClick(tp, Qt::Key_Right);
  QTest::keyClick(tp, Qt::Key_Right);  // 1, 2, 4
  QSlider* replicas = window_.scenario().field(QStringLiteral("deployment.replicas"))->slider();
  replicas->setFocus();
  QTest::keyClick(replicas, Qt::Key_Right);  // 2
  type_into(QStringLiteral("scheduler.max_running"), QStringLiteral("16, 64, 256"));
  EXPECT_FALSE(bench_.failure());

  // The answer must match a run of the same study.
  const study::Study study = make_study(bench_.session().scenario(), bench_.catalogue());
  ASSERT_EQ(study.point_count(), 30U);
  std::map<std::int64_t, double> best;  // most tokens/s within 50 ms, by batch limit
  for (const study::PointResult& point : study::run_study(study, {}).points) {
    EXPECT_EQ(point.labels.tp, 4);
    EXPECT_EQ(point.labels.replicas, 2);
    const auto& m = *point.metrics;
    if (m.latency_per_token.p90 && *m.latency_per_token.p90 <= 0.050) {
      double& most = best[std::get<std::int64_t>(point.swept[0].index() == 1 ? point.swept[0] : point.swept[1])];
      most = std::max(most, m.output_tokens_per_s);
    }
  }
  const QString found = answer();
  EXPECT_EQ(found.count(QStringLiteral("max running ")), 3) << utf8(found);
  EXPECT_EQ(found.count(QChar(u'✓')),
            static_cast<int>(std::count_if(best.begin(), best.end(), [](const auto& b) { return b.second > 0; })))
      << utf8(found);
}

TEST_F(NewcomerTest, SpaceSwapsTheTwoScenarios) {
  open(bench_, kJumpStart);
  bench_.duplicate_scenario();
  bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("8"));
  settle(bench_);
  EXPECT_EQ(bench_.session().state().current, 1U);
  QWidget* view = window_.curves().plot().findChild<QWidget*>(QStringLiteral("canvas"))->parentWidget();
  view->setFocus();
  QTest::keyClick(view, Qt::Key_Space);
  EXPECT_EQ(bench_.session().state().current, 0U);
  EXPECT_EQ(bench_.session().state().compared, std::optional<std::size_t>(1));
  QTest::keyClick(view, Qt::Key_Space);
  EXPECT_EQ(bench_.session().state().current, 1U);
}

bool is_inner(const QWidget* widget) {
  return widget->objectName().startsWith(QStringLiteral("qt_")) || widget->inherits("QDockWidgetTitleButton") ||
         widget->inherits("QTabBar") || widget->inherits("QMenu") || widget->inherits("QComboBoxListView");
}

TEST_F(NewcomerTest, TabReachesEveryControlOfEveryViewAndDock) {
  open(bench_, kJumpStart);
  bench_.duplicate_scenario();
  for (QDockWidget* dock : window_.findChildren<QDockWidget*>()) dock->show();
  for (QDockWidget* dock : window_.findChildren<QDockWidget*>()) {
    for (View* view : window_.views()) {
      dock->raise();
      window_.show_view(view->id());
      settle(bench_);
      std::set<const QWidget*> reached;
      QWidget* first = window_.scenario().field(QStringLiteral("deployment.tp"))->slider();
      first->setFocus();
      for (int i = 0; i < 300; ++i) {
        QWidget* now = QApplication::focusWidget();
        ASSERT_NE(now, nullptr);
        if (!reached.insert(now).second && now == first) break;
        QTest::keyClick(now, Qt::Key_Tab);
      }
      for (const QWidget* widget : window_.findChildren<QWidget*>()) {
        if (!(widget->focusPolicy() & Qt::TabFocus) || !widget->isVisible() || !widget->isEnabled() || is_inner(widget))
          continue;
        if (widget->visibleRegion().isEmpty() || widget->focusProxy() != nullptr) continue;
        EXPECT_TRUE(reached.contains(widget))
            << utf8(view->id()) << ", " << utf8(dock->objectName()) << ": " << widget->metaObject()->className() << " "
            << utf8(widget->accessibleName()) << " in " << widget->parentWidget()->metaObject()->className();
      }
    }
  }
}

TEST_F(NewcomerTest, AssistiveTechnologyFindsANameForEverythingWithFocus) {
  open(bench_, kJumpStart);
  for (QDockWidget* dock : window_.findChildren<QDockWidget*>()) dock->show();
  for (View* view : window_.views()) window_.show_view(view->id());
  settle(bench_);
  for (QWidget* widget : window_.findChildren<QWidget*>()) {
    if (widget->focusPolicy() == Qt::NoFocus || is_inner(widget) || widget->focusProxy() != nullptr) continue;
    const auto* label = qobject_cast<const QLabel*>(widget);
    if (label && label->text().isEmpty()) continue;  // an empty message label
    const QAccessibleInterface* interface = QAccessible::queryAccessibleInterface(widget);
    ASSERT_NE(interface, nullptr);
    EXPECT_FALSE(interface->text(QAccessible::Name).isEmpty())
        << widget->metaObject()->className() << " in " << widget->parentWidget()->metaObject()->className();
  }
}

TEST_F(NewcomerTest, EveryChartHasItsTable) {
  open(bench_, kJumpStart);
  bench_.duplicate_scenario();
  bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
  settle(bench_);
  for (View* view : window_.views()) {
    window_.show_view(view->id());
    settle(bench_);
    const TableData table = view->table();
    EXPECT_GE(table.headers.size(), 2) << utf8(view->id());
    EXPECT_FALSE(table.rows.empty()) << utf8(view->id());
    for (const QStringList& row : table.rows) ASSERT_EQ(row.size(), table.headers.size()) << utf8(view->id());
  }
}

}  // namespace
}  // namespace plimsoll::gui

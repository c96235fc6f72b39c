// SPDX-License-Identifier: Apache-2.0
// The window from the user's side: sliders, keys, drag and drop, names for assistive technology.
#include "gui/window/main_window.h"

#include <QAbstractButton>
#include <QAbstractSlider>
#include <QAbstractSpinBox>
#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QDropEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMimeData>
#include <QSlider>
#include <QStatusBar>
#include <QTableWidget>
#include <QUrl>

#include "gui/window/curves_view.h"
#include "gui/window/heat_grid.h"
#include "gui/window/legend.h"
#include "gui/window/scenario_dock.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class WindowTest : public BenchTest {
 protected:
  WindowTest() : window_(bench_) {
    window_.resize(1200, 800);
    window_.show();
  }
  void SetUp() override { open(bench_, kJumpStart); }
  Workbench bench_;
  MainWindow window_;
};

TEST_F(WindowTest, AKeyOnTheSliderChangesTheCurve) {
  QSlider* slider = window_.scenario().field(QStringLiteral("deployment.tp"))->slider();
  slider->setFocus();
  QTest::keyClick(slider, Qt::Key_Right);
  settle(bench_);
  EXPECT_EQ(bench_.curves().results().size(), 10U);
  EXPECT_EQ(bench_.curves().results().front().labels.tp, 2);
  EXPECT_EQ(window_.scenario().field(QStringLiteral("deployment.tp"))->box()->currentText(), QStringLiteral("2"));
}

TEST_F(WindowTest, AProblemStandsBesideItsField) {
  Field* field = window_.scenario().field(QStringLiteral("engine"));
  field->box()->lineEdit()->setFocus();
  field->box()->lineEdit()->selectAll();
  QTest::keyClicks(field->box()->lineEdit(), QStringLiteral("nonsense"));
  QTest::keyClick(field->box()->lineEdit(), Qt::Key_Return);
  settle(bench_);
  ASSERT_TRUE(bench_.failure());
  bool shown = false;
  for (const QLabel* label : field->findChildren<QLabel*>(QStringLiteral("problem")))
    shown = shown || label->text().contains(QStringLiteral("nonsense"));
  EXPECT_TRUE(shown);
}

TEST_F(WindowTest, ClickSelectsAndShiftClickPins) {
  PlotView& plot = window_.curves().plot();
  const auto& curve = bench_.curves().curves()[0];
  const double x = *value_of(curve.points[0].row, *find_metric("output_tokens_per_s"));
  const double y = *value_of(curve.points[0].row, *find_metric("latency_per_token_p90_s"));
  QWidget* canvas = plot.findChild<QWidget*>(QStringLiteral("canvas"));
  QTest::mouseClick(canvas, Qt::LeftButton, {}, plot.place_of(x, y).toPoint());
  ASSERT_TRUE(bench_.selection());
  EXPECT_EQ(bench_.selection()->load, curve.points[0].row.result.labels.load_value);
  QTest::mouseClick(canvas, Qt::LeftButton, Qt::ShiftModifier, plot.place_of(x, y).toPoint());
  EXPECT_EQ(bench_.session().state().pins.size(), 1U);
}

TEST_F(WindowTest, HiddenSeriesAreLeftOut) {
  const auto points = [&] {
    std::size_t n = 0;
    for (const PlotSeries& series : window_.curves().plot().content().series) n += series.points.size();
    return n;
  };
  const std::size_t all = points();
  const auto answer = [&] { return utf8(window_.curves().card().headline()); };
  QTableWidget& rows = window_.curves().card().rows();
  ASSERT_EQ(rows.rowCount(), 4) << "a row for each TP degree";
  rows.setFocus();
  rows.setCurrentCell(0, 0);
  QTest::keyClick(&rows, Qt::Key_Space);
  QCoreApplication::processEvents();
  EXPECT_LT(points(), all);
  QTest::keyClick(&rows, Qt::Key_Space);
  QCoreApplication::processEvents();
  EXPECT_EQ(points(), all);
  // A hidden curve is not the answer either.
  const std::string before = answer();
  int best = 0;
  while (best < 3 && before.find(utf8(rows.item(best, 0)->text()) + ":") == std::string::npos) ++best;
  rows.item(best, 0)->setCheckState(Qt::Unchecked);
  QCoreApplication::processEvents();
  EXPECT_NE(answer(), before);
  for (int row = 0; row < 4; ++row) rows.item(row, 0)->setCheckState(Qt::Unchecked);
  QCoreApplication::processEvents();
  EXPECT_EQ(answer(), "All curves are hidden");
}

TEST_F(WindowTest, FilesCanBeDropped) {
  const std::string csv = write("mine.csv",
                                "model,hardware,engine,tp,replicas,input_tokens,output_tokens,load_kind,load_value,"
                                "output_tokens_per_s,latency_per_token_p90_s\n"
                                "llama-2-7b,ml.p4d.24xlarge,tgi-1.1,4,1,256,256,jumpstart,64,1900,0.035\n");
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(qs(csv))});
  QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&window_, &enter);
  QDropEvent drop(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&window_, &drop);
  EXPECT_EQ(window_.problem(), QString());
  settle(bench_);
  ASSERT_EQ(bench_.session().state().measured.size(), 1U);
  bool found = false;
  for (const OverlayPoint& point : overlay_points(bench_.curves(), bench_.tables()))
    found = found || !point.table->published;
  EXPECT_TRUE(found);
}

// A real drag asks the widget below the pointer, or its next parent that accepts drops. A chart's canvas used to
// refuse.
TEST_F(WindowTest, FilesCanBeDroppedAnywhere) {
  for (QDockWidget* dock : window_.findChildren<QDockWidget*>()) dock->show();
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(qs(kJumpStart))});
  data.setText(qs(kJumpStart));  // text fields would take it as text
  for (const char* const id : {"curves", "parity", "table"}) {
    View* view = window_.view(qs(id));
    window_.show_view(view->id());
    QCoreApplication::processEvents();
    for (int x = 10; x < window_.width(); x += 60) {
      for (int y = 30; y < window_.height(); y += 40) {
        QWidget* target = window_.childAt(x, y);
        while (target != nullptr && !target->acceptDrops()) target = target->parentWidget();
        if (target == nullptr) target = &window_;
        QDragEnterEvent enter(target->mapFrom(&window_, QPoint(x, y)), Qt::CopyAction, &data, Qt::LeftButton,
                              Qt::NoModifier);
        enter.ignore();
        QCoreApplication::sendEvent(target, &enter);
        ASSERT_TRUE(enter.isAccepted()) << utf8(view->id()) << ' ' << x << ' ' << y << ' '
                                        << target->metaObject()->className();
      }
    }
  }
  const std::string csv = write("mine.csv",
                                "model,hardware,engine,tp,replicas,input_tokens,output_tokens,load_kind,load_value,"
                                "output_tokens_per_s,latency_per_token_p90_s\n"
                                "llama-2-7b,ml.p4d.24xlarge,tgi-1.1,4,1,256,256,jumpstart,64,1900,0.035\n");
  window_.show_view(QStringLiteral("curves"));
  QMimeData table;
  table.setUrls({QUrl::fromLocalFile(qs(csv))});
  QDropEvent drop(QPointF(50, 50), Qt::CopyAction, &table, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(window_.curves().plot().findChild<QWidget*>(QStringLiteral("canvas")), &drop);
  EXPECT_EQ(bench_.session().state().measured.size(), 1U);
}

// For every field with a list: each of its values can be typed, also the first one, at which the box starts.
TEST_F(WindowTest, EveryChoiceOfAFieldCanBeTyped) {
  QApplication::setActiveWindow(&window_);
  for (FoldGroup* group : window_.scenario().groups()) group->set_open(true);
  for (Field* field : window_.scenario().findChildren<Field*>()) {
    const QStringList choices = field->spec().choices;
    QLineEdit* line = field->box()->lineEdit();
    for (const QString& text : {choices.back(), choices.front(), choices.back()}) {
      line->setFocus();
      line->selectAll();
      QTest::keyClicks(line, text);
      QTest::keyClick(line, Qt::Key_Return);
      EXPECT_EQ(utf8(field_value(bench_.session().scenario(), utf8(field->spec().path)).text), utf8(text))
          << utf8(field->spec().path);
    }
    const QString before = field_value(bench_.session().scenario(), utf8(field->spec().path)).text;
    QTest::keyClick(line, Qt::Key_Tab);
    EXPECT_EQ(field_value(bench_.session().scenario(), utf8(field->spec().path)).text, before);
  }
}

// Completing 3 to 32 would enter a number that was not typed.
TEST_F(WindowTest, ATypedNumberIsNotCompletedToALongerChoice) {
  QLineEdit* line = window_.scenario().field(QStringLiteral("scheduler.max_running"))->box()->lineEdit();
  line->setFocus();
  line->selectAll();
  QTest::keyClicks(line, QStringLiteral("3"));
  QTest::keyClick(line, Qt::Key_Return);
  EXPECT_EQ(utf8(field_value(bench_.session().scenario(), "scheduler.max_running").text), "3");
}

// Which keys a text field takes depends on the desktop: on X11 also Ctrl+E and Ctrl+K, "to the end of the line". Here
// a command gets a key that every desktop's fields take.
TEST_F(WindowTest, AKeyOfTheMenusIsACommandInATextFieldToo) {
  QLineEdit* field = window_.scenario().field(QStringLiteral("engine"))->box()->lineEdit();
  const auto takes = [&] {
    QKeyEvent key(QEvent::ShortcutOverride, Qt::Key_Right, Qt::ControlModifier);
    key.ignore();
    QCoreApplication::sendEvent(field, &key);
    return key.isAccepted();
  };
  EXPECT_TRUE(takes()) << "one word to the right";
  window_.actions_of_menus().front()->setShortcut(QKeySequence(QStringLiteral("Ctrl+Right")));
  EXPECT_FALSE(takes());
}

TEST_F(WindowTest, UndoInAFieldUndoesTheScenario) {
  QApplication::setActiveWindow(&window_);
  Field& field = *window_.scenario().field(QStringLiteral("workload.lengths.input"));
  QLineEdit* line = field.box()->lineEdit();
  const QString before = line->text();
  line->setFocus();
  line->selectAll();
  QTest::keyClicks(line, QStringLiteral("77"));
  QTest::keyClick(line, Qt::Key_Return);
  ASSERT_EQ(utf8(field_value(bench_.session().scenario(), "workload.lengths.input").text), "77");
  QTest::keyClick(line, Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(utf8(field_value(bench_.session().scenario(), "workload.lengths.input").text), utf8(before));
  EXPECT_EQ(utf8(line->text()), utf8(before)) << "the field shows what the scenario has";
  QTest::keyClick(line, Qt::Key_Y, Qt::ControlModifier);
  EXPECT_EQ(utf8(line->text()), "77");
}

TEST_F(WindowTest, WhatTheKeyboardReachesHasAName) {
  for (const View* view : window_.views()) {
    window_.show_view(view->id());
    QCoreApplication::processEvents();
  }
  for (const QWidget* widget : window_.findChildren<QWidget*>()) {
    const bool control = qobject_cast<const QAbstractButton*>(widget) || qobject_cast<const QAbstractSlider*>(widget) ||
                         qobject_cast<const QComboBox*>(widget) || qobject_cast<const QAbstractSpinBox*>(widget) ||
                         qobject_cast<const QLineEdit*>(widget) || qobject_cast<const PlotView*>(widget);
    if (!control || widget->focusPolicy() == Qt::NoFocus) continue;
    const bool inner = widget->objectName().startsWith(QStringLiteral("qt_"));  // parts of Qt's own widgets
    const auto* button = qobject_cast<const QAbstractButton*>(widget);
    EXPECT_TRUE(inner || !widget->accessibleName().isEmpty() || (button && !button->text().isEmpty()))
        << widget->metaObject()->className() << " in " << widget->parentWidget()->metaObject()->className();
  }
}

TEST_F(WindowTest, AllOfItFitsASmallScreen) {
  bench_.set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  for (QDockWidget* dock : window_.findChildren<QDockWidget*>()) dock->show();
  for (View* view : window_.views()) window_.show_view(view->id());
  settle(bench_);
  EXPECT_LE(window_.minimumSizeHint().width(), 1024);
  EXPECT_LE(window_.minimumSizeHint().height(), 700);
  for (const View* view : window_.views()) EXPECT_LE(view->minimumSizeHint().width(), 480) << utf8(view->id());
}

TEST_F(WindowTest, TheLegendGoesBelowANarrowPlot) {
  window_.show_view(QStringLiteral("pareto"));
  const auto legend_place = [&](int width) {
    window_.resize(width, 800);
    settle(bench_);
    const QWidget& legend = *window_.current_view()->findChild<Legend*>();
    const QWidget& plot = *window_.current_view()->findChild<PlotView*>();
    EXPECT_FALSE(QRect(legend.mapTo(&window_, QPoint()), legend.size())
                     .intersects(QRect(plot.mapTo(&window_, QPoint()), plot.size())));
    for (const QWidget* button : legend.findChildren<QAbstractButton*>()) {
      EXPECT_TRUE(legend.rect().contains(button->geometry()))
          << utf8(button->accessibleName()) << " at a width of " << width;
    }
    return legend.mapTo(&window_, QPoint()).y() > plot.mapTo(&window_, QPoint(0, plot.height() - 1)).y();
  };
  EXPECT_FALSE(legend_place(1500));
  EXPECT_TRUE(legend_place(760));
  EXPECT_FALSE(legend_place(1500));
}

TEST_F(WindowTest, AnEmptyFieldShowsWhatItStandsFor) {
  const auto placeholder = [&](const char* path) {
    return window_.scenario().field(qs(path))->box()->lineEdit()->placeholderText();
  };
  EXPECT_EQ(placeholder("scheduler.policy"), QStringLiteral("tgi (default of tgi-1.1)"));
  EXPECT_EQ(placeholder("seed"), QStringLiteral("1 (default)"));
  bench_.set_value(QStringLiteral("engine"), QStringLiteral("vllm-0.12"));
  bench_.session().edit({}, {}, [](SessionState& s) { set_edit(s.scenarios[0], "scheduler", "{}"); });
  settle(bench_);
  const Field& batch = *window_.scenario().field(QStringLiteral("scheduler.max_running"));
  EXPECT_EQ(placeholder("scheduler.max_running"), QStringLiteral("256")) << "short: it stands beside a slider";
  EXPECT_EQ(batch.spec().choices[batch.slider()->value()], QStringLiteral("256"));
  EXPECT_THAT(utf8(batch.box()->toolTip()), ::testing::HasSubstr("256 (default of vllm-0.12)"));
  bench_.set_value(QStringLiteral("model"), QStringLiteral("no-such-model"));
  settle(bench_);
  EXPECT_EQ(placeholder("scheduler.policy"), QStringLiteral("default"))
      << "nothing is known of a study that cannot be read";
}

// A regression: with the boxes that choose its metric beside it, the caption of the map shrank to a column of single
// words and the window grew.
TEST_F(WindowTest, TheHeatMapFitsBesideTheDecision) {
  window_.resize(1024, 700);
  window_.show_view(QString::fromLatin1(kDecisionView));
  window_.show_view(QStringLiteral("heatmap"));
  settle(bench_);
  EXPECT_EQ(window_.width(), 1024);
  const View& view = *window_.current_view();
  for (const QLabel* label : view.findChildren<QLabel*>()) {
    EXPECT_LE(label->height(), 3 * label->fontMetrics().lineSpacing()) << utf8(label->text());
  }
}

// Tests the map itself, not only its table: every cell can be reached, is announced, and can be applied.
TEST_F(WindowTest, TheHeatMapIsWalkedByKeyboard) {
  window_.show_view(QStringLiteral("heatmap"));
  settle(bench_);
  HeatGrid& grid = *window_.findChild<HeatGrid*>();
  ASSERT_EQ(grid.map().cells.size(), grid.map().tp.size() * grid.map().batch.size());
  grid.setFocus();
  QTest::keyClick(&grid, Qt::Key_Right);
  EXPECT_EQ(grid.cursor(), 0U) << "the first key shows the cursor";
  EXPECT_THAT(utf8(grid.accessibleDescription()), ::testing::StartsWith("TP 1, batch limit 4: "));
  QTest::keyClick(&grid, Qt::Key_Right);
  QTest::keyClick(&grid, Qt::Key_Down);
  EXPECT_EQ(utf8(grid.accessibleDescription()), utf8(grid.cell_text(grid.map().batch.size() + 1)));
  EXPECT_THAT(utf8(window_.statusBar()->currentMessage()), ::testing::StartsWith("TP 2, batch limit 8: "));
  QTest::keyClick(&grid, Qt::Key_Left);
  QTest::keyClick(&grid, Qt::Key_Left);
  EXPECT_EQ(grid.cursor(), grid.map().batch.size()) << "it stays within its row";
  QTest::keyClick(&grid, Qt::Key_End);
  EXPECT_EQ(grid.cursor(), 2 * grid.map().batch.size() - 1);
  QTest::keyClick(&grid, Qt::Key_Return);
  EXPECT_EQ(field_value(bench_.session().scenario(), "deployment.tp").text, QStringLiteral("2"));
  EXPECT_EQ(field_value(bench_.session().scenario(), "scheduler.max_running").text,
            QString::number(grid.map().batch.back()));
}

TEST_F(WindowTest, TheHeatMapsCellsAnswerTheMouse) {
  window_.show_view(QStringLiteral("heatmap"));
  settle(bench_);
  HeatGrid& grid = *window_.findChild<HeatGrid*>();
  const QPoint place = grid.cell_box(5).center().toPoint();
  const QImage before = grid.grab().toImage();
  QTest::mouseClick(&grid, Qt::LeftButton, {}, place);
  EXPECT_EQ(grid.cursor(), 5U);
  EXPECT_NE(grid.grab().toImage(), before) << "the cursor shows";
  EXPECT_FALSE(bench_.session().is_modified()) << "a click only asks";
  QTest::mouseDClick(&grid, Qt::LeftButton, {}, place);
  EXPECT_EQ(field_value(bench_.session().scenario(), "scheduler.max_running").text,
            QString::number(grid.map().batch[5]));
}

TEST_F(WindowTest, TheDataOfAViewSortAsNumbers) {
  QTableWidget* twin = nullptr;
  for (QDockWidget* dock : window_.findChildren<QDockWidget*>()) {
    if (dock->objectName() != QStringLiteral("data")) continue;
    dock->show();
    twin = dock->findChild<QTableWidget*>();
  }
  ASSERT_NE(twin, nullptr);
  settle(bench_);
  ASSERT_GT(twin->rowCount(), 40);
  constexpr int kLoad = 2;
  twin->sortItems(kLoad);
  const auto load = [&](int row) { return twin->item(row, kLoad)->text().remove(QChar(0x202f)).toDouble(); };
  for (int r = 1; r < twin->rowCount(); ++r) ASSERT_LE(load(r - 1), load(r));
}

// Over the whole window, because a single place may be covered by a curve.
TEST_F(WindowTest, TheThemeCanBeChangedAtAnyTime) {
  const auto mean_grey = [&] {
    const QImage image = window_.grab().toImage();
    double sum = 0;
    for (int y = 0; y < image.height(); ++y) {
      for (int x = 0; x < image.width(); ++x) sum += qGray(image.pixel(x, y));
    }
    return sum / (1.0 * image.width() * image.height());
  };
  EXPECT_GT(mean_grey(), 180);
  window_.set_dark(true);
  EXPECT_LT(mean_grey(), 80);
  window_.set_dark(false);
  EXPECT_GT(mean_grey(), 180);
}

}  // namespace
}  // namespace plimsoll::gui

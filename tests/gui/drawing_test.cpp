// SPDX-License-Identifier: Apache-2.0
// Drawing that is avoided: axes that have not changed, and a window that was already drawn within the same frame.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <QBuffer>
#include <QDir>
#include <QElapsedTimer>
#include <QLabel>
#include <QPushButton>
#include <QSvgGenerator>
#include <QVBoxLayout>
#include <QtCharts/QChart>
#include <QtCharts/QChartView>
#include <QtCharts/QLineSeries>
#include <cmath>

#include "gui/plot/band_layer.h"
#include "gui/plot/layer_cache.h"
#include "gui/window/curves_view.h"
#include "gui/window/enclosure.h"
#include "gui/window/main_window.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class LayerCacheTest : public ::testing::Test {
 protected:
  LayerCacheTest() {
    content_.x.title = QStringLiteral("load");
    content_.y.title = QStringLiteral("latency");
    x_.fit({0, 100}, true);
    y_.fit({0, 7}, true);
  }
  [[nodiscard]] PlotFrame frame() const {
    return {&content_, theme_, &x_, &y_, QRectF(60, 10, 320, 230), QRectF(0, 0, 400, 300), QFont()};
  }
  template <class Paint>
  [[nodiscard]] QImage picture(double ratio, const Paint& paint) const {
    QImage image((QSizeF(400, 300) * ratio).toSize(), QImage::Format_RGB32);
    image.setDevicePixelRatio(ratio);
    image.fill(theme_->background);
    QPainter painter(&image);
    paint(painter);
    return image;
  }
  QImage cached(double ratio = 1) {
    return picture(ratio, [&](QPainter& painter) { cache_.draw_axes(painter, frame()); });
  }
  [[nodiscard]] QImage fresh(double ratio = 1) const {
    return picture(ratio, [&](QPainter& painter) { paint_axes(painter, frame()); });
  }
  PlotContent content_;
  const Theme* theme_ = &light_theme();
  AxisScale x_, y_;
  LayerCache cache_;
};

TEST_F(LayerCacheTest, ThePictureIsWhatPaintingWouldGive) {
  for (const double ratio : {1.0, 2.0}) {
    EXPECT_EQ(cached(ratio), fresh(ratio)) << "made, at ratio " << ratio;
    EXPECT_EQ(cached(ratio), fresh(ratio)) << "kept, at ratio " << ratio;
  }
  EXPECT_EQ(cache_.times_made(), 2);
}

// Makes one visible change after the other; a cached picture would be wrong each time.
TEST_F(LayerCacheTest, WhateverShowsMakesItAnew) {
  static_cast<void>(cached());
  const auto expect_anew = [&](const char* what) {
    const int before = cache_.times_made();
    EXPECT_EQ(cached(), fresh()) << what;
    EXPECT_EQ(cache_.times_made(), before + 1) << what;
  };
  y_.fit({0, 70}, true);
  expect_anew("range");
  content_.y.title = QStringLiteral("TTFT");
  expect_anew("title");
  theme_ = &dark_theme();
  expect_anew("theme");
  x_.set_log(true);
  x_.fit({0, 2}, false);
  expect_anew("scale");
}

// A strip of the timeline is lower than its title is long. With the margin for the other axis, the title fits.
TEST_F(LayerCacheTest, ATitleMayBeLongerThanItsAxis) {
  content_.y.title = QStringLiteral("KV blocks");
  const double length = QFontMetricsF(QFont()).horizontalAdvance(content_.y.title);
  PlotFrame strip = frame();
  strip.area = QRectF(60, 5, 320, length - 5);
  strip.whole = QRectF(0, 0, 400, length + 5);
  QBuffer out;
  QSvgGenerator svg;
  svg.setOutputDevice(&out);
  QPainter painter(&svg);
  paint_axes(painter, strip);
  painter.end();
  EXPECT_TRUE(out.data().contains("KV blocks")) << out.data().toStdString();
}

TEST_F(LayerCacheTest, AnSvgKeepsItsText) {
  QBuffer out;
  QSvgGenerator svg;
  svg.setOutputDevice(&out);
  svg.setSize(QSize(400, 300));
  QPainter painter(&svg);
  cache_.draw_axes(painter, frame());
  painter.end();
  EXPECT_TRUE(out.data().contains("latency</text>"));
  EXPECT_FALSE(out.data().contains("<image"));
  EXPECT_EQ(cache_.times_made(), 0);
}

// A band of opacity 0.16 over white leaves 84 % of the white. Where two overlap, 84 % of that is left.
TEST_F(LayerCacheTest, BandsAreBlendedWhereTheyOverlap) {
  content_.bands = {{0, {{0, 1, 5}, {100, 1, 5}}}, {1, {{0, 3, 7}, {100, 3, 7}}}};
  BandLayer layer;
  const auto drawn = [&](double ratio) {
    return picture(ratio, [&](QPainter& painter) { layer.draw(painter, frame()); });
  };
  const auto mixed = [&](const QColor& below, std::size_t colour) {
    const QColor over = theme_->colour(colour);
    const auto one = [](int a, int b) { return static_cast<int>(std::lround(0.84 * a + 0.16 * b)); };
    return QColor(one(below.red(), over.red()), one(below.green(), over.green()), one(below.blue(), over.blue()));
  };
  const auto near = [](const QColor& a, const QColor& b) {  // blending rounds
    return std::abs(a.red() - b.red()) < 3 && std::abs(a.green() - b.green()) < 3 && std::abs(a.blue() - b.blue()) < 3;
  };
  const QColor ground = theme_->background, lower = mixed(ground, 0), both = mixed(lower, 1);
  for (const double ratio : {1.0, 2.0}) {
    const QImage image = drawn(ratio);
    const auto at = [&](double y) {
      const QPointF pixel = *frame().pixel(50, y) * ratio;
      return image.pixelColor(pixel.toPoint());
    };
    EXPECT_TRUE(near(at(0.5), ground));
    EXPECT_TRUE(near(at(2), lower)) << at(2).name().toStdString() << " " << lower.name().toStdString();
    EXPECT_TRUE(near(at(4), both)) << at(4).name().toStdString() << " " << both.name().toStdString();
    EXPECT_TRUE(near(at(6), mixed(ground, 1)));
  }
  EXPECT_EQ(layer.times_made(), 4) << "two bands at two scales";
  static_cast<void>(drawn(2));
  EXPECT_EQ(layer.times_made(), 4) << "kept";
  content_.bands[1].spans[0].low = 2;
  static_cast<void>(drawn(2));
  EXPECT_EQ(layer.times_made(), 5) << "the other one is kept";
}

/// Counts the events of one type that reach a widget.
class EventCount final : public QObject {
 public:
  EventCount(QWidget& widget, QEvent::Type type) : type_(type) { widget.installEventFilter(this); }
  int count = 0;

 protected:
  bool eventFilter(QObject* /*watched*/, QEvent* event) override {
    count += event->type() == type_ ? 1 : 0;
    return false;
  }

 private:
  QEvent::Type type_;
};

// Shows the curve of a study with one TP degree, and everything that is drawn later than the plot.
bool show_curve(Workbench& bench, MainWindow& window) {
  window.show();
  bench.open(qs(kJumpStart));
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
  const bool done = QTest::qWaitFor([&] { return !bench.is_busy(); }, kPatienceMs);
  static_cast<void>(window.curves());  // completes what the plot leaves for later
  for (int turn = 0; turn < 3; ++turn) QCoreApplication::processEvents();
  return done;
}

// Each move produces an outline, estimates, single points and a complete curve: at least four changes. The bound is the
// number of frames that have passed, so a slow machine may take longer, plus one for the first and one for the last.
TEST(FrameTest, ADragIsDrawnOnceAFrame) {
  Workbench bench;
  MainWindow window(bench);
  ASSERT_TRUE(show_curve(bench, window));
  EventCount paints(*window.curves().plot().findChild<QWidget*>(QStringLiteral("canvas")), QEvent::Paint);
  QSignalSpy changes(&bench, &Workbench::curves_changed);
  QElapsedTimer clock;
  clock.start();
  for (int move = 0; move < 30; ++move) {
    // Values that are new each time, because known curves are shown at once.
    bench.set_value(QStringLiteral("scheduler.max_running"), QString::number(17 + move));
    const auto before = changes.count();
    ASSERT_TRUE(QTest::qWaitFor([&] { return changes.count() >= before + 2; }, kPatienceMs)) << "move " << move;
  }
  ASSERT_TRUE(QTest::qWaitFor([&] { return !bench.is_busy(); }, kPatienceMs));
  for (int turn = 0; turn < 3; ++turn) QCoreApplication::processEvents();
  EXPECT_GE(changes.count(), 60);
  EXPECT_GT(paints.count, 0);
  EXPECT_LE(paints.count, clock.elapsed() / 16 + 2) << changes.count() << " changes";
}

PlotSeries line_of(LineLook look, std::initializer_list<QPointF> points) {
  PlotSeries series;
  series.line = look;
  for (const QPointF& at : points) series.points.push_back({at.x(), at.y(), PointLook::filled, {}, 0, 0});
  return series;
}

QList<QAbstractSeries*> drawn_series(const PlotView& plot) { return plot.findChild<QChartView*>()->chart()->series(); }

// During a drag, greyed curves come and go, and lines turn from dashed to solid. Creating the objects of
// Qt Charts anew took longer than everything else that a frame draws.
TEST(SeriesTest, AreKeptWhileCurvesComeAndGo) {
  const auto plot = make_plot_view();
  PlotContent many;
  many.series = {line_of(LineLook::faded, {{1, 1}, {2, 2}}), line_of(LineLook::dashed, {{1, 2}, {2, 3}})};
  plot->set_content(many);
  const auto before = drawn_series(*plot);
  PlotContent few;
  few.series = {line_of(LineLook::solid, {{1, 5}, {2, 6}, {3, 7}})};
  plot->set_content(few);
  EXPECT_EQ(drawn_series(*plot), before);
  // Of the two lines, one is drawn now: solid, with the new points.
  const auto* line = qobject_cast<QXYSeries*>(before[0]);
  EXPECT_EQ(line->points(), (QList<QPointF>{{1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(line->pen().style(), Qt::SolidLine);
  EXPECT_TRUE(qobject_cast<QXYSeries*>(before[1])->points().isEmpty());
  plot->set_content(many);
  EXPECT_EQ(drawn_series(*plot), before);
  EXPECT_EQ(qobject_cast<QXYSeries*>(before[0])->pen().color(), light_theme().frame);
}

// A long session must not keep the lines of its largest chart.
TEST(SeriesTest, AreGivenUpWhenFarFewerAreNeeded) {
  const auto plot = make_plot_view();
  PlotContent content;
  content.series.assign(60, line_of(LineLook::solid, {{1, 1}, {2, 2}}));
  plot->set_content(content);
  EXPECT_EQ(drawn_series(*plot).size(), 60);
  content.series.resize(2);
  plot->set_content(content);
  EXPECT_LT(drawn_series(*plot).size(), 20);
}

// With a dock beside them, the curves of a small window had a quarter of its height. There the residuals give way.
TEST(ResidualTest, GiveWayToThePlotOfALowWindow) {
  Workbench bench;
  MainWindow window(bench);
  window.resize(1100, 900);
  window.show();
  bench.open(qs(kJumpStart));
  ASSERT_TRUE(QTest::qWaitFor([&] { return !bench.is_busy(); }, kPatienceMs));
  const auto plots = [&] { return window.curves().picture().charts.size(); };
  EXPECT_EQ(plots(), 2U) << "the curves and their residuals";
  window.resize(1100, 440);
  for (int turn = 0; turn < 3; ++turn) QCoreApplication::processEvents();
  EXPECT_EQ(plots(), 1U);
  window.resize(1100, 900);
  for (int turn = 0; turn < 3; ++turn) QCoreApplication::processEvents();
  EXPECT_EQ(plots(), 2U);
}

// The answer's text changes at every step of a drag. If its layout reached the window, all views would be painted
// again.
TEST(EnclosureTest, AnotherTextInsideDoesNotReachTheWindow) {
  QWidget window;
  auto* column = new QVBoxLayout(&window);
  auto* inside = new QWidget();
  auto* rows = new QVBoxLayout(inside);
  auto* label = new QLabel(QStringLiteral("about 118 clients"));
  label->setWordWrap(true);
  rows->addWidget(label);
  rows->addWidget(new QPushButton(QStringLiteral("a wide button that sets the least width")));
  column->addWidget(new Enclosure(inside));
  window.resize(600, 400);
  window.show();
  for (int turn = 0; turn < 5; ++turn) QCoreApplication::processEvents();
  EventCount layouts(window, QEvent::LayoutRequest);
  label->setText(QStringLiteral("about 119 clients"));
  for (int turn = 0; turn < 5; ++turn) QCoreApplication::processEvents();
  EXPECT_EQ(layouts.count, 0);
  // What needs more room gets it.
  rows->addWidget(new QLabel(QString(200, QChar(u'w'))));
  for (int turn = 0; turn < 5; ++turn) QCoreApplication::processEvents();
  EXPECT_GT(layouts.count, 0);
  EXPECT_GE(window.minimumSizeHint().width(), inside->minimumSizeHint().width());
  EXPECT_EQ(inside->width(), inside->parentWidget()->width());
}

// Rows below the plot that came and went with each point changed its height, and with it everything in the window.
TEST(FrameTest, ThePlotKeepsItsHeightDuringADrag) {
  Workbench bench;
  MainWindow window(bench);
  ASSERT_TRUE(show_curve(bench, window));
  PlotView& plot = window.curves().plot();
  EventCount sizes(plot, QEvent::Resize);
  int incomplete = 0;
  QObject::connect(&bench, &Workbench::curves_changed, &window, [&] {
    if (bench.curves().is_complete()) return;
    // With the outline alone there is no measured point to compare, no warning and no note.
    ++incomplete;
    window.curves().refresh();
    window.curves().complete();
  });
  for (int move = 0; move < 10; ++move) {
    bench.set_value(QStringLiteral("scheduler.max_running"), QString::number(117 + move));
    const int before = incomplete;
    ASSERT_TRUE(QTest::qWaitFor([&] { return incomplete > before; }, kPatienceMs));
    for (int turn = 0; turn < 3; ++turn) QCoreApplication::processEvents();
  }
  EXPECT_EQ(sizes.count, 0);
  ASSERT_TRUE(QTest::qWaitFor([&] { return !bench.is_busy(); }, kPatienceMs));
}

// At rest, a row without a text gives its room back; until then it keeps it.
TEST(FrameTest, ARowIsHeldUntilTheResultsHaveSettled) {
  QWidget window;
  auto* column = new QVBoxLayout(&window);
  auto* row = new QLabel(QStringLiteral("estimated"), &window);
  column->addWidget(row);
  window.show();
  const int height = row->height();
  row->clear();
  show_row(*row, false, false);
  EXPECT_FALSE(row->isHidden());
  EXPECT_EQ(row->minimumHeight(), height);
  show_row(*row, false, true);
  EXPECT_TRUE(row->isHidden());
  show_row(*row, false, false);
  EXPECT_TRUE(row->isHidden()) << "a row that is not there is not held";
  show_row(*row, true, false);
  EXPECT_FALSE(row->isHidden());
  EXPECT_EQ(row->minimumHeight(), 0);
}

// The plot comes first; the answer follows in a later turn, so that no turn draws both.
TEST(FrameTest, TheAnswerFollowsThePlot) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  bench.open(qs(kJumpStart));
  ASSERT_TRUE(QTest::qWaitFor([&] { return !bench.is_busy(); }, kPatienceMs));
  CurvesView& view = window.curves();
  const QString before = view.card().headline();
  bench.session().edit(QStringLiteral("limit"), {}, [](SessionState& state) { state.view.limit = 20; });
  view.refresh();
  EXPECT_EQ(view.plot().content().lines.size(), 1U);
  EXPECT_EQ(view.card().headline(), before);
  EXPECT_FALSE(view.is_ready());
  // While the new curve is incomplete, the card may keep its answer over several drawings.
  ASSERT_TRUE(QTest::qWaitFor([&] { return view.card().headline() != before; }, kPatienceMs));
}

// On as many cores as simulating threads, the window waited for their time slices.
TEST(FrameTest, SimulatingThreadsGiveWayToTheWindow) {
  if (getpriority(PRIO_PROCESS, 0) >= 19) GTEST_SKIP() << "there is no lower priority";
  const auto nicer = [] {  // threads with a lower priority than this one
    const int own = getpriority(PRIO_PROCESS, 0);
    int count = 0;
    for (const QString& id : QDir(QStringLiteral("/proc/self/task")).entryList(QDir::Dirs | QDir::NoDotAndDotDot))
      count += getpriority(PRIO_PROCESS, static_cast<id_t>(id.toInt())) > own ? 1 : 0;
    return count;
  };
  Workbench bench;
  bench.open(qs(kJumpStart));
  bench.duplicate_scenario();
  ASSERT_TRUE(QTest::qWaitFor([&] { return !bench.is_busy(); }, kPatienceMs));
  EXPECT_GE(nicer(), 2) << "a thread for the edited scenario and one for the others";
}

}  // namespace
}  // namespace plimsoll::gui

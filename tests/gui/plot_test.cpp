// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gui/plot/axis_scale.h"
#include "gui/plot/decimate.h"
#include "gui/plot/plot_view.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

RC_GTEST_PROP(DecimateTest, KeepsEveryColumnsLeastAndGreatest, ()) {
  const auto n = *rc::gen::inRange(500, 3000);
  std::vector<QPointF> points;
  for (int i = 0; i < n; ++i) points.emplace_back(i, *rc::gen::inRange(-1000, 1000));
  const int columns = 20;
  const auto out = decimate(points, 0, n, columns);
  RC_ASSERT(out.size() <= 4U * (columns + 2));
  const auto range_of = [&](const std::vector<QPointF>& from, int column) {
    double low = 1e9, high = -1e9;
    for (const QPointF& p : from) {
      if (static_cast<int>(p.x() / (static_cast<double>(n) / columns)) != column) continue;
      low = std::min(low, p.y());
      high = std::max(high, p.y());
    }
    return std::pair(low, high);
  };
  for (int column = 0; column < columns; ++column) RC_ASSERT(range_of(points, column) == range_of(out, column));
  RC_ASSERT(std::is_sorted(out.begin(), out.end(), [](const QPointF& a, const QPointF& b) { return a.x() < b.x(); }));
}

TEST(AxisScaleTest, ALogAxisShowsNothingThatIsNotPositive) {
  AxisScale axis;
  axis.set_log(true);
  EXPECT_FALSE(axis.place(0));
  EXPECT_FALSE(axis.place(-1));
  EXPECT_FALSE(axis.place(NAN));
  EXPECT_FALSE(axis.place(INFINITY));
  EXPECT_DOUBLE_EQ(*axis.place(1000), 3);
}

RC_GTEST_PROP(AxisScaleTest, TicksAreInsideOrderedAndFew, (bool log)) {
  AxisScale axis;
  axis.set_log(log);
  const double low = std::pow(10, *rc::gen::inRange(-30, 40) / 10.0),
               span = std::pow(10, *rc::gen::inRange(1, 40) / 10.0);
  axis.fit({*axis.place(low), *axis.place(low * span)}, false);
  const auto ticks = axis.ticks(8);
  std::size_t named = 0;
  double last = -1e300;
  for (const AxisTick& tick : ticks) {
    RC_ASSERT(tick.place >= axis.low() - 1e-6 * std::abs(axis.low()) - 1e-9);
    RC_ASSERT(tick.place <= axis.high() + 1e-6 * std::abs(axis.high()) + 1e-9);
    RC_ASSERT(tick.place > last);
    last = tick.place;
    named += tick.label.isEmpty() ? 0 : 1;
  }
  RC_ASSERT(named >= 1U);
  RC_ASSERT(named <= 20U);
}

TEST(DensityTest, EveryPointInRangeIsSeenAndNoneElse) {
  const QImage image =
      density({{0.5, 0.5}, {9.5, 9.5}, {20, 5}, {NAN, 5}}, QRectF(0, 0, 10, 10), QSize(10, 10), Qt::red);
  int seen = 0;
  for (int y = 0; y < 10; ++y) {
    for (int x = 0; x < 10; ++x) seen += qAlpha(image.pixel(x, y)) > 0 ? 1 : 0;
  }
  EXPECT_EQ(seen, 2);
  EXPECT_GT(qAlpha(image.pixel(0, 9)), 0) << "y points upwards";
  EXPECT_GT(qAlpha(image.pixel(9, 0)), 0);
}

TEST(ThemeTest, ColoursKeepTheContrastOfWcag) {
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    for (const QColor& ground : {theme->background, theme->panel}) {
      for (const QColor& text : {theme->text, theme->soft_text, theme->bad, theme->good, theme->accent}) {
        EXPECT_GE(contrast(text, ground), 4.5) << text.name().toStdString() << " on " << ground.name().toStdString();
      }
    }
    for (const QColor& colour : theme->series)
      EXPECT_GE(contrast(colour, theme->background), 3) << colour.name().toStdString();
  }
}

TEST(ThemeTest, TextOnAFillIsReadAndDarkFillsCarryWhite) {
  for (const QColor& fill : light_theme().series)
    EXPECT_EQ(text_on(fill), QColor(Qt::white)) << fill.name().toStdString();
  for (const QColor& fill : dark_theme().series)
    EXPECT_EQ(text_on(fill), QColor(Qt::black)) << fill.name().toStdString();
  for (int grey = 0; grey < 256; ++grey)
    EXPECT_GE(contrast(text_on(QColor(grey, grey, grey)), QColor(grey, grey, grey)), 4.5) << grey;
}

// Colours as seen with protanopia and deuteranopia, in linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
using Matrix = std::array<std::array<double, 3>, 3>;
QColor seen_by(const QColor& c, const Matrix& m) {
  const std::array<double, 3> rgb = {c.redF(), c.greenF(), c.blueF()};
  std::array<double, 3> out{};
  for (std::size_t i = 0; i < 3; ++i)
    out[i] = std::clamp(m[i][0] * rgb[0] + m[i][1] * rgb[1] + m[i][2] * rgb[2], 0.0, 1.0);
  return QColor::fromRgbF(static_cast<float>(out[0]), static_cast<float>(out[1]), static_cast<float>(out[2]));
}

TEST(ThemeTest, TheFirstSeriesStayApartForColourBlindReaders) {
  const Matrix protan = {
      {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
  const Matrix deutan = {
      {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = a + 1; b < 4; ++b) {
        for (const Matrix& matrix : {protan, deutan}) {
          const QColor p = seen_by(theme->series[a], matrix), q = seen_by(theme->series[b], matrix);
          const double distance = std::hypot(p.red() - q.red(), p.green() - q.green(), p.blue() - q.blue());
          // Shapes differ as well; a distance of 30 of 255 is clearly visible side by side.
          EXPECT_GE(distance, 30) << a << " and " << b << (theme->dark ? " dark" : " light");
        }
      }
    }
  }
}

// Three ticks are wanted for errors from -16 to 12 %: a round step of 20 would leave only the tick at 0.
TEST(AxisScaleTest, ASymmetricRangeHasTicksOnBothSides) {
  for (const double least : {-16.0, -19.0, -3.2, -45.0}) {
    AxisScale axis;
    axis.fit({least, -least * 0.75}, true, true);
    EXPECT_EQ(axis.low(), -axis.high());
    EXPECT_LE(axis.low(), least);
    const std::vector<AxisTick> ticks = axis.ticks(3);
    ASSERT_GE(ticks.size(), 3U) << least;
    EXPECT_LE(ticks.size(), 5U) << least;
    EXPECT_DOUBLE_EQ(ticks.front().place, -ticks.back().place);
  }
}

// fit({0, 90}) is 0 to 95: steps of half of 20, and 2 % of room.
TEST(AxisScaleTest, ALooseRangeStaysWhileItIsLargeEnoughAndNotFarTooLarge) {
  AxisScale axis;
  axis.fit({0, 90}, true);
  const double high = axis.high();
  axis.fit_loosely({0, 65}, true);
  EXPECT_EQ(axis.high(), high) << "contains all";
  axis.fit_loosely({0, high}, true);
  EXPECT_EQ(axis.high(), high) << "a place at the end is still inside";
  axis.fit_loosely({}, true);
  EXPECT_EQ(axis.high(), high) << "nothing to show";
  axis.fit_loosely({0, 120}, true);
  EXPECT_GE(axis.high(), 120) << "grows at once";
  AxisScale fresh;
  fresh.fit({0, 5}, true);
  axis.fit_loosely({0, 5}, true);
  EXPECT_EQ(axis.high(), fresh.high()) << "far too large";
}

// On a logarithmic axis, a range that grows at one end keeps the other.
TEST(AxisScaleTest, ALooseRangeGrowsAtOneEnd) {
  AxisScale axis;
  axis.set_log(true);
  axis.fit({1, 3}, false);
  const double low = axis.low();
  axis.fit_loosely({1.3, 3.5}, false);
  EXPECT_EQ(axis.low(), low);
  EXPECT_GE(axis.high(), 3.5);
}

class PlotTest : public ::testing::Test {
 protected:
  PlotTest() : plot_(make_plot_view()) {
    plot_->resize(600, 400);
    plot_->show();
    PlotContent content;
    content.x = {QStringLiteral("x"), true, true};
    content.y = {QStringLiteral("y"), true, true};
    PlotSeries series;
    series.name = QStringLiteral("s");
    for (const double x : {1.0, 10.0, 100.0, 1000.0})
      series.points.push_back({x, 2 * x, PointLook::filled, QStringLiteral("at %1").arg(x), 0, 0});
    content.series = {series};
    content.lines = {{7, Qt::Horizontal, 50, QStringLiteral("limit"), true, true}};
    plot_->set_content(content);
    QCoreApplication::processEvents();
  }
  QWidget* canvas() { return plot_->findChild<QWidget*>(QStringLiteral("canvas")); }
  std::unique_ptr<PlotView> plot_;
};

TEST_F(PlotTest, PlacesAndValuesAgreeOnALogAxis) {
  const QPointF place = plot_->place_of(100, 200);
  const QPointF value = plot_->value_at(place);
  EXPECT_NEAR(value.x(), 100, 1.5);  // half a pixel of 500 over 3 decades is 0.7 %
  EXPECT_NEAR(value.y(), 200, 4);
}

TEST_F(PlotTest, OneImpossiblePointDoesNotHideItsSeries) {
  PlotContent content = plot_->content();
  content.series[0].points.push_back({0, 5, PointLook::filled, {}, 0, 0});
  content.series[0].points.push_back({NAN, 5, PointLook::filled, {}, 0, 0});
  plot_->set_content(content);
  EXPECT_EQ(plot_->undrawable(), 2U);
  EXPECT_GT(plot_->place_of(10, 20).x(), 0);
}

TEST_F(PlotTest, TheLimitCanBeDragged) {
  double moved = 0;
  bool finished = false;
  QObject::connect(plot_.get(), &PlotView::line_moved, plot_.get(), [&](int id, double value, bool end) {
    EXPECT_EQ(id, 7);
    moved = value;
    finished = end;
  });
  const QPoint from = plot_->place_of(3, 50).toPoint(), to = plot_->place_of(3, 500).toPoint();
  QTest::mousePress(canvas(), Qt::LeftButton, {}, from);
  QTest::mouseMove(canvas(), to);
  EXPECT_FALSE(finished);
  QTest::mouseRelease(canvas(), Qt::LeftButton, {}, to);
  EXPECT_TRUE(finished);
  EXPECT_NEAR(moved, 500, 25);  // a pixel of 350 over 4 decades is 2.6 %
}

// During a drag, curves come and go within a few milliseconds; the axes must not jump with each of them.
TEST_F(PlotTest, TheRangeStaysUntilTheContentIsSettled) {
  const auto before = plot_->x_range();  // of x from 1 to 1000
  PlotContent content = plot_->content();
  content.settled = false;
  content.series[0].points.pop_back();  // to 100: two thirds of the decades
  plot_->set_content(content);
  EXPECT_EQ(plot_->x_range(), before);
  content.settled = true;
  plot_->set_content(content);
  const auto final_range = plot_->x_range();
  EXPECT_LT(final_range.second, before.second);
  // The final range does not depend on the way to it.
  const auto fresh = make_plot_view();
  fresh->resize(plot_->size());
  fresh->set_content(content);
  EXPECT_EQ(fresh->x_range(), final_range);
}

TEST_F(PlotTest, APointOutsideTheRangeIsShownAtOnce) {
  const auto before = plot_->x_range();
  PlotContent content = plot_->content();
  content.settled = false;
  content.series[0].points.push_back({9000, 9000, PointLook::filled, {}, 0, 0});
  plot_->set_content(content);
  EXPECT_GT(plot_->x_range().second, std::log10(9000));
  EXPECT_EQ(plot_->x_range().first, before.first);
  EXPECT_TRUE(plot_->rect().contains(plot_->place_of(9000, 9000).toPoint()));
}

// The user's zoom and the range of another plot take precedence; other axes have no range to keep.
TEST_F(PlotTest, AKeptRangeYieldsToZoomToFollowedRangesAndToOtherAxes) {
  const auto before = plot_->x_range();
  PlotContent content = plot_->content();
  content.settled = false;
  plot_->follow_x(std::pair(0.5, 1.5));
  plot_->set_content(content);
  EXPECT_EQ(plot_->x_range(), std::pair(0.5, 1.5));
  plot_->follow_x({});
  EXPECT_EQ(plot_->x_range(), before);
  QTest::mousePress(canvas(), Qt::LeftButton, {}, QPoint(150, 60));
  QTest::mouseMove(canvas(), QPoint(350, 250));
  QTest::mouseRelease(canvas(), Qt::LeftButton, {}, QPoint(350, 250));
  const auto zoomed = plot_->x_range();
  plot_->set_content(content);
  EXPECT_EQ(plot_->x_range(), zoomed);
  plot_->reset_zoom();
  EXPECT_EQ(plot_->x_range(), before);
  content.x.log = false;
  content.series[0].points.pop_back();
  plot_->set_content(content);
  EXPECT_EQ(plot_->x_range().first, 0);
  EXPECT_LT(plot_->x_range().second, 200) << "fits the points up to 100";
}

TEST_F(PlotTest, ARubberBandZoomsAndTheKeyResets) {
  const auto before = plot_->x_range();
  QTest::mousePress(canvas(), Qt::LeftButton, {}, QPoint(150, 60));
  QTest::mouseMove(canvas(), QPoint(350, 250));
  QTest::mouseRelease(canvas(), Qt::LeftButton, {}, QPoint(350, 250));
  const auto zoomed = plot_->x_range();
  EXPECT_LT(zoomed.second - zoomed.first, 0.6 * (before.second - before.first));
  plot_->set_content(plot_->content());
  EXPECT_EQ(plot_->x_range(), zoomed) << "new data keep the zoom";
  QTest::keyClick(canvas()->parentWidget(), Qt::Key_0);
  EXPECT_EQ(plot_->x_range(), before);
}

TEST_F(PlotTest, ArrowKeysWalkAlongThePointsAndSayThem) {
  QStringList said;
  QObject::connect(plot_.get(), &PlotView::hovered, plot_.get(), [&](const QString& tip) { said << tip; });
  for (int i = 0; i < 3; ++i) QTest::keyClick(canvas()->parentWidget(), Qt::Key_Right);
  EXPECT_EQ(said, QStringList({QStringLiteral("at 1"), QStringLiteral("at 10"), QStringLiteral("at 100")}));
  EXPECT_EQ(canvas()->parentWidget()->accessibleDescription(), QStringLiteral("at 100"));
}

}  // namespace
}  // namespace plimsoll::gui

// SPDX-License-Identifier: Apache-2.0
// The content of pictures: charts use the palette's colours, and nothing is cut off at the edges. The tests check
// properties, not pixels, because fonts and their versions differ.
#include <QImage>
#include <algorithm>
#include <cmath>
#include <set>

#include "gui/window/curves_view.h"
#include "gui/window/main_window.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

// Half the smallest distance between two series colours of a theme would be 40. Blending at the edges of markers
// reduces it.
bool alike(const QColor& a, const QColor& b) {
  constexpr int kNear = 24;
  return std::abs(a.red() - b.red()) <= kNear && std::abs(a.green() - b.green()) <= kNear &&
         std::abs(a.blue() - b.blue()) <= kNear;
}

bool has_colour(const QImage& image, const QPointF& centre, double radius, const QColor& colour) {
  for (int y = static_cast<int>(centre.y() - radius); y <= centre.y() + radius; ++y) {
    for (int x = static_cast<int>(centre.x() - radius); x <= centre.x() + radius; ++x) {
      if (image.valid(x, y) && alike(image.pixelColor(x, y), colour)) return true;
    }
  }
  return false;
}

class PictureTest : public BenchTest {
 protected:
  PictureTest() : window_(bench_) {
    window_.resize(1100, 760);
    window_.show();
  }
  void SetUp() override { open(bench_, kJumpStart); }
  static QImage picture_of(PlotView& plot, int ratio) {
    QImage image(plot.size() * ratio, QImage::Format_RGB32);
    image.setDevicePixelRatio(ratio);
    image.fill(Qt::magenta);  // remains visible where nothing is drawn
    plot.render(&image);
    return image;
  }
  Workbench bench_;
  MainWindow window_;
};

TEST_F(PictureTest, EverySeriesHasItsPointsInItsColour) {
  for (const bool dark : {false, true}) {
    window_.set_dark(dark);
    settle(bench_);
    for (const int ratio : {1, 2}) {
      PlotView& plot = window_.curves().plot();
      const QImage image = picture_of(plot, ratio);
      std::size_t series_seen = 0;
      for (const PlotSeries& series : plot.content().series) {
        if (series.line == LineLook::faded || !series.markers) continue;
        const auto found = std::count_if(series.points.begin(), series.points.end(), [&](const PlotPoint& point) {
          return has_colour(image, plot.place_of(point.x, point.y) * ratio, 5.0 * ratio,
                            window_.theme().colour(series.colour));
        });
        // Where curves overlap, markers of the later curve cover some of the earlier ones.
        EXPECT_GE(3 * found, 2 * std::ssize(series.points))
            << utf8(series.name) << (dark ? ", dark" : ", light") << ", scale " << ratio;
        EXPECT_GE(std::ssize(series.points), 9) << utf8(series.name);
        ++series_seen;
      }
      EXPECT_EQ(series_seen, 8U) << "four curves, four tables";
    }
  }
}

TEST_F(PictureTest, TheLimitIsWhereItsValueIs) {
  PlotView& plot = window_.curves().plot();
  const auto redness = [](const QColor& c) { return c.red() - (c.green() + c.blue()) / 2; };
  // Returns the columns of the picture with a red pixel in the row of this value.
  const auto line_at = [&](double value) {
    const QImage image = picture_of(plot, 1);
    const int row = static_cast<int>(std::lround(plot.place_of(1000, value).y()));
    int found = 0;
    for (int x = 0; x < image.width(); ++x) {
      bool any = false;
      for (int y = row - 1; y <= row + 1; ++y)
        any = any || 2 * redness(image.pixelColor(x, y)) > redness(window_.theme().bad);
      found += any ? 1 : 0;
    }
    return static_cast<double>(found) / image.width();
  };
  const auto move_to = [&](double limit) {
    bench_.set_view({}, {}, [&](ViewState& v) { v.limit = limit; });
    settle(bench_);
  };
  move_to(50);
  EXPECT_GT(line_at(50), 0.4) << "dashed";
  EXPECT_LT(line_at(75), 0.1);
  move_to(75);
  EXPECT_GT(line_at(75), 0.4);
  EXPECT_LT(line_at(50), 0.1);
}

TEST_F(PictureTest, NothingIsCutOffAtTheEdgeOfAPlot) {
  for (const QSize size : {QSize(1100, 760), QSize(900, 560), QSize(2200, 1300)}) {
    window_.resize(size);
    for (const char* const id : {"curves", "pareto", "cost", "parity", "cdf"}) {
      window_.show_view(qs(id));
      settle(bench_);
      for (PlotView* plot : window_.current_view()->findChildren<PlotView*>()) {
        if (!plot->isVisible()) continue;
        const QImage image = picture_of(*plot, 1);
        const QColor ground = window_.theme().background;
        int ink = 0;
        for (int x = 0; x < image.width(); ++x) {
          ink +=
              alike(image.pixelColor(x, 0), ground) && alike(image.pixelColor(x, image.height() - 1), ground) ? 0 : 1;
        }
        for (int y = 0; y < image.height(); ++y) {
          ink += alike(image.pixelColor(0, y), ground) && alike(image.pixelColor(image.width() - 1, y), ground) ? 0 : 1;
        }
        EXPECT_EQ(ink, 0) << id << " at " << size.width() << " x " << size.height() << ": "
                          << utf8(plot->accessibleName());
      }
    }
  }
}

// A view that shows nothing has a single colour; a chart has at least lines, axes and text.
TEST_F(PictureTest, EveryViewShowsSomethingInBothThemes) {
  bench_.duplicate_scenario();
  bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
  for (const bool dark : {false, true}) {
    window_.set_dark(dark);
    for (View* view : window_.views()) {
      window_.show_view(view->id());
      settle(bench_);
      const QImage image = view->grab().toImage().convertToFormat(QImage::Format_RGB32);
      std::set<QRgb> colours;
      std::size_t ground = 0;
      for (int y = 0; y < image.height(); ++y) {
        for (int x = 0; x < image.width(); ++x) {
          colours.insert(image.pixel(x, y));
          ground += alike(image.pixelColor(x, y), window_.theme().background) ||
                            alike(image.pixelColor(x, y), window_.theme().panel)
                        ? 1
                        : 0;
        }
      }
      const double ink = 1 - static_cast<double>(ground) / static_cast<double>(image.width() * image.height());
      EXPECT_GT(colours.size(), 30U) << utf8(view->id()) << (dark ? ", dark" : ", light");
      EXPECT_GT(ink, 0.005) << utf8(view->id()) << (dark ? ", dark" : ", light");
    }
  }
}

}  // namespace
}  // namespace plimsoll::gui

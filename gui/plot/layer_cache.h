// SPDX-License-Identifier: GPL-3.0-or-later
// A layer of a plot that is drawn again at every step of a drag while it stays the same: grid, labels and titles, whose
// text takes longer to set than all the curves to draw.
#pragma once

#include <QPainter>
#include <QPixmap>
#include <functional>
#include <optional>

#include "gui/plot/plot_painter.h"

namespace plimsoll::gui {

class LayerCache {
 public:
  /// Draws the axes of `frame`: from a picture where they look as they did the last time and `painter` draws pixels,
  /// else afresh.
  void draw_axes(QPainter& painter, const PlotFrame& frame);
  /// How often the picture was made; for tests.
  [[nodiscard]] int times_made() const { return made_; }

 private:
  /// All that paint_axes() looks at.
  struct Look {
    const Theme* theme = nullptr;
    QRectF area, whole;
    QFont font;
    QString x_title, y_title;
    double x_low = 0, x_high = 0, y_low = 0, y_high = 0, ratio = 1;
    bool x_log = false, y_log = false;
    bool operator==(const Look&) const = default;
  };
  [[nodiscard]] static Look look_of(const PlotFrame& frame, double ratio);
  [[nodiscard]] static double pixel_ratio(const QPainter& painter);

  std::optional<Look> look_;
  QPixmap picture_;
  int made_ = 0;
};

}  // namespace plimsoll::gui

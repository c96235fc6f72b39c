// SPDX-License-Identifier: GPL-3.0-or-later
// Caches a layer of a plot that stays the same during a drag: grid, labels and titles. Laying out their text takes
// longer than drawing all curves.
#pragma once

#include <QPainter>
#include <QPixmap>
#include <optional>

#include "gui/plot/plot_painter.h"

namespace plimsoll::gui {

/// Keeps one picture. Not for concurrent use.
class LayerCache {
 public:
  /// Draws the axes of `frame`. Uses the cached picture if the axes have not changed and `painter` draws pixels.
  void draw_axes(QPainter& painter, const PlotFrame& frame);
  /// Returns how often the picture has been made; for tests.
  [[nodiscard]] int times_made() const { return made_; }
  /// Returns the device pixels per unit of the plot: a window's device pixel ratio or the scale of a picture. Returns 0
  /// if a kept picture would not align with pixels, or if the device has none (an SVG or a PDF keeps its text).
  [[nodiscard]] static double pixel_ratio(const QPainter& painter);

 private:
  /// Everything that paint_axes() depends on.
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

  std::optional<Look> look_;
  QPixmap picture_;
  int made_ = 0;
};

}  // namespace plimsoll::gui

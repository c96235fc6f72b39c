// SPDX-License-Identifier: GPL-3.0-or-later
// Draws everything except the lines: grid, axes, markers, error bars, limits, knees. It paints in pixels, so it works
// equally on a screen, in an SVG and in a PDF.
#pragma once

#include <QPainter>
#include <functional>

#include "gui/plot/axis_scale.h"
#include "gui/plot/plot_view.h"

namespace plimsoll::gui {

struct PlotFrame {
  const PlotContent* content = nullptr;
  const Theme* theme = nullptr;
  const AxisScale *x = nullptr, *y = nullptr;
  QRectF area;   // area of the plot, in pixels
  QRectF whole;  // including the axes
  QFont font;
  [[nodiscard]] std::optional<QPointF> pixel(double x_value, double y_value) const;
  [[nodiscard]] QPointF pixel_of_place(double px, double py) const;
};

struct Marker {
  std::size_t shape = 0;  // number of the series
  double radius = 4;
  QColor colour;
  PointLook look = PointLook::filled;
};
/// Draws a marker around a point; hollow ones are filled with the background.
void draw_marker(QPainter& painter, const QPointF& at, const Marker& marker, const QColor& background);
/// Draws a line with a marker, for legends.
void draw_swatch(QPainter& painter, const QRectF& box, const PlotSeries& series, const Theme& theme);

/// Returns false for a chart that only shows a message, whose axes would have no meaning.
[[nodiscard]] bool has_scale(const PlotContent& content);
// In drawing order, from the bottom up:
void paint_axes(QPainter& painter, const PlotFrame& frame);     // grid, labels, titles
void paint_grounds(QPainter& painter, const PlotFrame& frame);  // cloud and hatching, below the lines
void paint_over(QPainter& painter, const PlotFrame& frame);     // markers, error bars, limits, marks, message
/// Draws the ring around the point under the cursor, and its text.
void paint_cursor(QPainter& painter, const PlotFrame& frame, const QPointF& at, const QString& tip);

/// Returns the margins for labels and titles around the plot.
[[nodiscard]] QMarginsF plot_margins(const PlotContent& content, const AxisScale& y, const QFont& font,
                                     const QSizeF& size);

}  // namespace plimsoll::gui

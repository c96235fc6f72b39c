// SPDX-License-Identifier: GPL-3.0-or-later
// What is drawn around and above the lines: grid, axes, markers, error bars, limits, knees. Plain painting in pixels,
// so it works the same on a screen, in an SVG and in a PDF.
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
  QRectF area;   // of the plot, in pixels
  QRectF whole;  // with axes
  QFont font;
  [[nodiscard]] std::optional<QPointF> pixel(double x_value, double y_value) const;
  [[nodiscard]] QPointF pixel_of_place(double px, double py) const;
};

/// Marker of series `shape` around a point.
void draw_marker(QPainter& painter, const QPointF& at, std::size_t shape, double radius, const QColor& colour,
                 PointLook look, const QColor& background);
/// A line and a marker, for legends.
void draw_swatch(QPainter& painter, const QRectF& box, const PlotSeries& series, const Theme& theme);

/// Whether axes would mean something: not those of a chart that only holds a message.
[[nodiscard]] bool has_scale(const PlotContent& content);
// In the order in which they lie on each other:
void paint_axes(QPainter& painter, const PlotFrame& frame);     // grid, labels, titles
void paint_grounds(QPainter& painter, const PlotFrame& frame);  // cloud, hatching; then come the lines
void paint_over(QPainter& painter, const PlotFrame& frame);     // markers, error bars, limits, marks, message
/// The ring around the point under the cursor, and its text.
void paint_cursor(QPainter& painter, const PlotFrame& frame, const QPointF& at, const QString& tip);

/// Room for labels and titles around the plot.
[[nodiscard]] QMarginsF plot_margins(const PlotContent& content, const AxisScale& y, const QFont& font,
                                     const QSizeF& size);

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// Reduces points without changing the picture: long lines for Qt Charts, and clouds of any size as an image.
#pragma once

#include <QColor>
#include <QImage>
#include <QPointF>
#include <QRectF>
#include <QSize>
#include <vector>

namespace plimsoll::gui {

/// Returns the first, lowest, highest and last point, in order, of each of `columns` columns that divide [low, high] in
/// x. The points must be sorted by x. A line with at most four points per column is returned unchanged.
[[nodiscard]] std::vector<QPointF> decimate(const std::vector<QPointF>& points, double low, double high, int columns);

/// Counts the points in each pixel of an image of `size` that shows `range` (y upwards). Returns the counts as the
/// opacity of `colour`.
[[nodiscard]] QImage density(const std::vector<QPointF>& points, const QRectF& range, const QSize& size,
                             const QColor& colour);

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// Fewer points, the same picture: what Qt Charts is given of a long line, and how a cloud of any size becomes an image.
#pragma once

#include <QColor>
#include <QImage>
#include <QPointF>
#include <QRectF>
#include <QSize>
#include <vector>

namespace plimsoll::gui {

/// Of each of `columns` columns of [low, high] in x: its first, least, greatest and last point, in their order. Points
/// are in order of x. A line of at most four points a column comes back as it is.
[[nodiscard]] std::vector<QPointF> decimate(const std::vector<QPointF>& points, double low, double high, int columns);

/// How many of `points` fall on each pixel of `size`, `range` spanning it (y upwards), as opacity of `colour`.
[[nodiscard]] QImage density(const std::vector<QPointF>& points, const QRectF& range, const QSize& size,
                             const QColor& colour);

}  // namespace plimsoll::gui

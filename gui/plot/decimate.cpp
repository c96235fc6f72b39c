// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/plot/decimate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace plimsoll::gui {
namespace {

// Keeps the first, lowest, highest and last point of a column, in their order. The drawn line looks the same without
// the others.
void add_column(const std::vector<QPointF>& points, std::size_t begin, std::size_t end, std::vector<QPointF>& out) {
  std::size_t least = begin, most = begin;
  for (std::size_t i = begin; i < end; ++i) {
    if (points[i].y() < points[least].y()) least = i;
    if (points[i].y() > points[most].y()) most = i;
  }
  std::array<std::size_t, 4> kept = {begin, std::min(least, most), std::max(least, most), end - 1};
  std::size_t last = points.size();
  for (const std::size_t i : kept) {
    if (i != last) out.push_back(points[i]);
    last = i;
  }
}

}  // namespace

std::vector<QPointF> decimate(const std::vector<QPointF>& points, double low, double high, int columns) {
  if (columns < 1 || !(high > low) || points.size() <= static_cast<std::size_t>(columns) * 4) return points;
  std::vector<QPointF> out;
  const double per_column = (high - low) / columns;
  const auto column_of = [&](const QPointF& p) {
    // All points left of the range make one column, and all points right of it another.
    return std::clamp(std::floor((p.x() - low) / per_column), -1.0, columns + 0.0);
  };
  std::size_t begin = 0;
  while (begin < points.size()) {
    std::size_t end = begin + 1;
    while (end < points.size() && column_of(points[end]) == column_of(points[begin])) ++end;
    add_column(points, begin, end, out);
    begin = end;
  }
  return out;
}

QImage density(const std::vector<QPointF>& points, const QRectF& range, const QSize& size, const QColor& colour) {
  const int width = std::max(1, size.width()), height = std::max(1, size.height());
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), 0);
  const double sx = width / range.width(), sy = height / range.height();
  std::uint32_t most = 0;
  for (const QPointF& p : points) {
    const double x = (p.x() - range.left()) * sx, y = (p.y() - range.top()) * sy;
    if (!(x >= 0 && x < width && y >= 0 && y < height)) continue;
    const auto row = static_cast<std::size_t>(height - 1 - static_cast<int>(y));
    most = std::max(most, ++counts[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)]);
  }
  QImage image(width, height, QImage::Format_ARGB32_Premultiplied);
  // Tables of colours by level and of levels by count, so that no logarithm is needed per pixel.
  std::vector<QRgb> shades(256);
  for (std::size_t i = 0; i < shades.size(); ++i) {
    QColor shade = colour;
    shade.setAlphaF(i == 0 ? 0.0F : static_cast<float>(0.25 + 0.75 * static_cast<double>(i) / 255.0));
    shades[i] = qPremultiply(shade.rgba());
  }
  // Logarithmic, so that single points stay visible beside thousands.
  const double scale = 254 / std::log1p(std::max(1U, most));
  std::vector<std::uint8_t> level(std::min<std::size_t>(most + 1, 1 << 16));
  for (std::size_t i = 1; i < level.size(); ++i) level[i] = static_cast<std::uint8_t>(1 + std::log1p(i) * scale);
  for (int y = 0; y < height; ++y) {
    auto* line = reinterpret_cast<QRgb*>(image.scanLine(y));
    for (int x = 0; x < width; ++x) {
      const std::size_t n =
          counts[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)];
      line[x] = shades[n == 0 ? 0 : level[std::min(n, level.size() - 1)]];
    }
  }
  return image;
}

}  // namespace plimsoll::gui

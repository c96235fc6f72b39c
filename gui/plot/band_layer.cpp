// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/plot/band_layer.h"

#include <cmath>

#include "gui/plot/layer_cache.h"

namespace plimsoll::gui {
namespace {

constexpr double kOpacity = 0.16;

// Returns the band's outline: along its upper edge, and back along its lower one.
QPolygonF outline_of(const PlotBand& band, const PlotFrame& f) {
  QPolygonF upper, lower;
  for (const PlotBand::Span& span : band.spans) {
    const auto low = f.pixel(span.x, span.low), high = f.pixel(span.x, span.high);
    if (!low || !high) continue;
    upper << *high;
    lower.prepend(*low);
  }
  return upper + lower;
}

}  // namespace

void BandLayer::draw(QPainter& painter, const PlotFrame& frame) {
  const double ratio = LayerCache::pixel_ratio(painter);
  kept_.resize(frame.content->bands.size());
  painter.save();
  painter.setClipRect(frame.area);
  painter.setPen(Qt::NoPen);
  painter.setRenderHint(QPainter::Antialiasing);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const PlotBand& band = frame.content->bands[i];
    const Picture wanted{outline_of(band, frame), frame.theme->colour(band.colour), ratio, {}, {}};
    if (wanted.outline.size() < 4) continue;
    if (ratio > 0) {
      blend(painter, kept_[i], wanted, frame.area);
      continue;
    }
    QColor fill = wanted.colour;
    fill.setAlphaF(static_cast<float>(kOpacity));
    painter.setBrush(fill);
    painter.drawPolygon(wanted.outline);
  }
  painter.restore();
}

void BandLayer::blend(QPainter& painter, Picture& kept, const Picture& wanted, const QRectF& area) {
  const QRect box = wanted.outline.boundingRect().intersected(area).toAlignedRect();
  if (box.isEmpty()) return;
  const QSize size(static_cast<int>(std::ceil(box.width() * wanted.ratio)),
                   static_cast<int>(std::ceil(box.height() * wanted.ratio)));
  if (kept.outline != wanted.outline || kept.colour != wanted.colour || kept.ratio != wanted.ratio ||
      kept.image.size() != size || kept.corner != box.topLeft()) {
    // The former image is used again if it has the size: a new one costs more than painting it.
    QImage image = std::move(kept.image);
    kept = wanted;
    if (image.size() != size) image = QImage(size, QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(wanted.ratio);
    image.fill(Qt::transparent);
    QPainter drawn(&image);
    drawn.setRenderHint(QPainter::Antialiasing);
    drawn.translate(-box.topLeft());
    drawn.setPen(Qt::NoPen);
    drawn.setBrush(wanted.colour);
    drawn.drawPolygon(wanted.outline);
    drawn.end();
    kept.image = std::move(image);
    kept.corner = box.topLeft();
    ++made_;
  }
  painter.setOpacity(kOpacity);
  painter.drawImage(box.topLeft(), kept.image);
  painter.setOpacity(1);
}

}  // namespace plimsoll::gui

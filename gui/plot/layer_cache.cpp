// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/plot/layer_cache.h"

#include <QPaintEngine>
#include <cmath>

namespace plimsoll::gui {

LayerCache::Look LayerCache::look_of(const PlotFrame& f, double ratio) {
  return {f.theme,     f.area,     f.whole,     f.font, f.content->x.title, f.content->y.title, f.x->low(),
          f.x->high(), f.y->low(), f.y->high(), ratio,  f.x->is_log(),      f.y->is_log()};
}

double LayerCache::pixel_ratio(const QPainter& painter) {
  const QPaintEngine* engine = painter.paintEngine();
  if (engine == nullptr || engine->type() != QPaintEngine::Raster) return 0;
  const QTransform to = painter.deviceTransform();
  const bool whole = std::round(to.dx()) == to.dx() && std::round(to.dy()) == to.dy();
  return to.type() <= QTransform::TxScale && to.m11() == to.m22() && to.m11() > 0 && whole ? to.m11() : 0;
}

void LayerCache::draw_axes(QPainter& painter, const PlotFrame& frame) {
  const double ratio = pixel_ratio(painter);
  if (ratio == 0) {
    paint_axes(painter, frame);
    return;
  }
  const Look look = look_of(frame, ratio);
  if (look_ != look) {
    picture_ = QPixmap((frame.whole.size() * ratio).toSize());
    picture_.setDevicePixelRatio(ratio);
    picture_.fill(frame.theme->background);
    QPainter drawn(&picture_);
    drawn.setRenderHints(painter.renderHints());
    paint_axes(drawn, frame);
    look_ = look;
    ++made_;
  }
  painter.drawPixmap(frame.whole.topLeft(), picture_);
}

}  // namespace plimsoll::gui

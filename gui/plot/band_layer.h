// SPDX-License-Identifier: GPL-3.0-or-later
// Draws the bands of a plot. Qt fills a large area of a transparent colour in threads of its own and waits for them;
// during a drag the simulation has the cores. So each band is painted in its full colour, for which Qt needs no thread,
// into a picture that is then blended.
#pragma once

#include <QImage>
#include <QPainter>
#include <QPolygonF>
#include <vector>

#include "gui/plot/plot_painter.h"

namespace plimsoll::gui {

/// Keeps a picture of each band for as long as the band looks the same. Not for concurrent use.
class BandLayer {
 public:
  /// Draws the bands of `frame`, with a painter in its pixels.
  void draw(QPainter& painter, const PlotFrame& frame);
  /// Returns how often a picture of a band has been made; for tests.
  [[nodiscard]] int times_made() const { return made_; }

 private:
  struct Picture {
    QPolygonF outline;
    QColor colour;
    double ratio = 0;
    QPoint corner;  // of the image, in pixels of the plot
    QImage image;
  };
  void blend(QPainter& painter, Picture& kept, const Picture& wanted, const QRectF& area);
  std::vector<Picture> kept_;
  int made_ = 0;
};

}  // namespace plimsoll::gui

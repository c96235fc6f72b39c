// SPDX-License-Identifier: GPL-3.0-or-later
// A view as a picture for readers without the program: its charts without the controls, under a title, with what is
// simulated on which machines, a legend, the view's answer and the date.
#pragma once

#include <QFont>
#include <QPainter>
#include <functional>
#include <vector>

#include "gui/window/view.h"

namespace plimsoll::gui {

/// Keeps pointers to the view and its charts: draw it at once.
class Picture {
 public:
  explicit Picture(View& view);
  [[nodiscard]] QSize size() const { return {width_, height_}; }
  [[nodiscard]] QString title() const { return title_; }
  /// Draws the picture from the origin in units of the view's pixels.
  void draw(QPainter& painter) const;
  /// Returns its texts, a line each; for tests.
  [[nodiscard]] QStringList texts() const { return texts_; }

 private:
  /// A strip of the picture: its height, and what draws it below a point.
  struct Strip {
    int height = 0;
    std::function<void(QPainter&, const QPoint&)> draw;
  };
  void add_text(const QString& text, const QFont& font, const QColor& colour);
  void add_chart(QWidget& chart);
  void add_legend(const PlotContent& content);
  void add(int height, std::function<void(QPainter&, const QPoint&)> draw);

  QString title_;
  QStringList texts_;
  QFont font_;
  const Theme* theme_ = nullptr;
  std::vector<Strip> strips_;
  int width_ = 0, height_ = 0;
};

}  // namespace plimsoll::gui

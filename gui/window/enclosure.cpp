// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/enclosure.h"

#include <QEvent>

namespace plimsoll::gui {

// No layout here: it would pass every request on.
Enclosure::Enclosure(QWidget* inside, QWidget* parent) : QWidget(parent), inside_(inside) {
  inside_->setParent(this);
  note_least();
}

void Enclosure::note_least() {
  const QSize now = inside_->minimumSizeHint();
  if (now == least_) return;
  least_ = now;
  updateGeometry();
}

QSize Enclosure::sizeHint() const { return inside_->sizeHint(); }

void Enclosure::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  inside_->resize(size());
}

bool Enclosure::event(QEvent* event) {
  if (event->type() == QEvent::LayoutRequest) note_least();
  return QWidget::event(event);
}

}  // namespace plimsoll::gui

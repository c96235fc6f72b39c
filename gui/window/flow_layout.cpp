// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/flow_layout.h"

#include <QWidget>
#include <algorithm>

namespace plimsoll::gui {
FlowLayout::~FlowLayout() {
  for (QLayoutItem* item : items_) delete item;
}

QLayoutItem* FlowLayout::itemAt(int index) const {
  return index >= 0 && index < count() ? items_[static_cast<std::size_t>(index)] : nullptr;
}

QLayoutItem* FlowLayout::takeAt(int index) {
  QLayoutItem* item = itemAt(index);
  if (item != nullptr) items_.erase(items_.begin() + index);
  return item;
}

QSize FlowLayout::minimumSize() const {
  QSize size;
  for (const QLayoutItem* item : items_) size = size.expandedTo(item->minimumSize());
  return size;
}

void FlowLayout::setGeometry(const QRect& rect) {
  QLayout::setGeometry(rect);
  arrange(rect, true);
}

int FlowLayout::arrange(const QRect& rect, bool move) const {
  int x = rect.left(), y = rect.top(), row = 0;
  std::vector<std::pair<QLayoutItem*, int>> line;
  const auto flush = [&] {  // centres the widgets of a row
    for (const auto& [item, left] : line) {
      const QSize size = item->sizeHint();
      if (move) item->setGeometry(QRect(QPoint(left, y + (row - size.height()) / 2), size));
    }
    line.clear();
  };
  for (QLayoutItem* item : items_) {
    const QSize size = item->sizeHint();
    if (item->widget() != nullptr && item->widget()->isHidden()) continue;
    // An item wider than the whole row gets a row of its own.
    if (x + size.width() > rect.right() + 1 && !line.empty()) {
      flush();
      x = rect.left();
      y += row + kDown;
      row = 0;
    }
    line.emplace_back(item, x);
    row = std::max(row, size.height());
    x += size.width() + kAcross;
  }
  flush();
  return y + row - rect.top();
}

}  // namespace plimsoll::gui

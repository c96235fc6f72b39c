// SPDX-License-Identifier: GPL-3.0-or-later
// Lays out widgets in rows that wrap at the available width, so that nothing is clipped at any text size.
#pragma once

#include <QLayout>
#include <vector>

namespace plimsoll::gui {

/// Takes ownership of its items, as layouts of Qt do.
class FlowLayout final : public QLayout {
 public:
  static constexpr int kAcross = 10, kDown = 4;  // pixels between items and between rows
  explicit FlowLayout(QWidget* parent) : QLayout(parent) { setContentsMargins(0, 0, 0, 0); }
  ~FlowLayout() override;
  FlowLayout(const FlowLayout&) = delete;
  FlowLayout& operator=(const FlowLayout&) = delete;
  void addItem(QLayoutItem* item) override { items_.push_back(item); }
  [[nodiscard]] int count() const override { return static_cast<int>(items_.size()); }
  [[nodiscard]] QLayoutItem* itemAt(int index) const override;
  QLayoutItem* takeAt(int index) override;
  [[nodiscard]] Qt::Orientations expandingDirections() const override { return {}; }
  [[nodiscard]] bool hasHeightForWidth() const override { return true; }
  [[nodiscard]] int heightForWidth(int width) const override { return arrange(QRect(0, 0, width, 0), false); }
  [[nodiscard]] QSize sizeHint() const override { return minimumSize(); }
  [[nodiscard]] QSize minimumSize() const override;
  void setGeometry(const QRect& rect) override;

 private:
  int arrange(const QRect& rect, bool move) const;
  std::vector<QLayoutItem*> items_;
};

}  // namespace plimsoll::gui

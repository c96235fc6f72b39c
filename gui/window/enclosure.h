// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps the changes of size inside a view from the window around it. With plain layouts, every label that gets another
// text makes each widget up to the window lay itself out again, and the tabs repaint everything in them.
#pragma once

#include <QWidget>

namespace plimsoll::gui {

/// Fills itself with one widget, which has a layout. Asks its own parent for another size only if the least size of the
/// inside has changed.
class Enclosure final : public QWidget {
  Q_OBJECT
 public:
  /// Takes ownership of `inside`.
  explicit Enclosure(QWidget* inside, QWidget* parent = nullptr);
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override { return least_; }

 protected:
  void resizeEvent(QResizeEvent* event) override;
  bool event(QEvent* event) override;

 private:
  void note_least();
  QWidget* inside_ = nullptr;
  QSize least_;
};

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// The line above the views that says what went wrong, with buttons for what can be done about it.
#pragma once

#include <QFrame>

class QAction;
class QLabel;
class QToolButton;

namespace plimsoll::gui {

class Banner final : public QFrame {
  Q_OBJECT
 public:
  explicit Banner(QWidget* parent = nullptr);
  /// Shows a text with a button for the action, if there is one; an empty text hides the line.
  void show_text(const QString& text, QAction* offer = nullptr);
  [[nodiscard]] QString text() const;

 Q_SIGNALS:
  /// The user has closed the line. `offered`: without taking the offered action.
  void dismissed(bool offered);

 private:
  QLabel* label_ = nullptr;
  QToolButton *offer_ = nullptr, *close_ = nullptr;
};

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// Dialogs over the actions of the menus: the command palette, and the help.
#pragma once

#include <QDialog>
#include <vector>

class QAction;
class QLineEdit;
class QListWidget;

namespace plimsoll::gui {

/// Returns a score if the letters of `wanted` occur in `text` in that order: the smaller, the better. Returns -1 if
/// they do not.
[[nodiscard]] int match_score(const QString& wanted, const QString& text);

/// The command palette: finds an action by a few letters of its name and triggers it.
class Palette final : public QDialog {
  Q_OBJECT
 public:
  Palette(const std::vector<QAction*>& actions, QWidget* parent);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void filter(const QString& wanted);
  void run();
  std::vector<QAction*> actions_;
  QLineEdit* line_ = nullptr;
  QListWidget* list_ = nullptr;
};

/// The meaning of every metric and of every key (help.cpp).
class Help final : public QDialog {
  Q_OBJECT
 public:
  Help(const std::vector<QAction*>& actions, QWidget* parent);
};

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// The command palette: finds any action of the menus by a few letters of its name.
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

}  // namespace plimsoll::gui

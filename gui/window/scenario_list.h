// SPDX-License-Identifier: GPL-3.0-or-later
// The scenarios of the session: a check box draws or hides one, a click selects the one to edit, F2 renames it.
#pragma once

#include <QWidget>

#include "gui/core/workbench.h"
#include "gui/plot/theme.h"

class QListWidget;
class QMenu;
class QToolButton;

namespace plimsoll::gui {

class ScenarioList final : public QWidget {
  Q_OBJECT
 public:
  explicit ScenarioList(Workbench& bench, QWidget* parent = nullptr);
  /// Shows the session's scenarios.
  void refresh();
  void set_theme(const Theme& theme);
  [[nodiscard]] QListWidget& list() { return *list_; }
  /// The menu of the button Add; the window adds what it can open.
  [[nodiscard]] QMenu& add_menu() { return *add_; }

 private:
  void make_buttons();
  void make_actions();
  void show_menu(const QPoint& place);
  void fill_presets(QMenu& menu);
  void changed(int row);
  [[nodiscard]] QString look_of(std::size_t scenario) const;
  [[nodiscard]] QIcon chip(std::size_t scenario) const;
  Workbench& bench_;
  QListWidget* list_ = nullptr;
  QMenu* add_ = nullptr;
  QToolButton* remove_ = nullptr;
  const Theme* theme_ = &light_theme();
};

}  // namespace plimsoll::gui

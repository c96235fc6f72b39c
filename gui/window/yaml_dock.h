// SPDX-License-Identifier: GPL-3.0-or-later
// The edited scenario as YAML, beside the form: each shows what the other changes.
#pragma once

#include <QTimer>
#include <QWidget>

#include "gui/core/workbench.h"
#include "gui/plot/theme.h"

class QLabel;
class QPlainTextEdit;

namespace plimsoll::gui {

/// Typed text becomes the scenario after a pause, if it is a YAML map. Its errors are shown below with their place.
class YamlDock final : public QWidget {
  Q_OBJECT
 public:
  explicit YamlDock(Workbench& bench, QWidget* parent = nullptr);
  /// Shows the scenario, unless the text already means the same.
  void refresh();
  /// Shows what the simulation reported about the text.
  void refresh_problem();
  /// Applies the text to the scenario at once. If the text cannot be read, shows why and returns false.
  bool apply();
  void set_theme(const Theme& theme) { theme_ = &theme; }
  [[nodiscard]] QPlainTextEdit& editor() { return *editor_; }
  [[nodiscard]] QString problem() const;

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void show_problem(const QString& text, int line);
  Workbench& bench_;
  QPlainTextEdit* editor_ = nullptr;
  QLabel* problem_ = nullptr;
  QTimer pause_;
  std::string shown_;    // what the scenario said when the text was last equal to it
  QString scenario_;     // the name of that scenario
  bool unread_ = false;  // the text cannot be read, so it differs from the scenario
  bool typed_ = false;   // the scenario was read from the text
  const Theme* theme_ = &light_theme();
};

}  // namespace plimsoll::gui

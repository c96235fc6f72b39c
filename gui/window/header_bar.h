// SPDX-License-Identifier: GPL-3.0-or-later
// What is simulated, above the views: model, hardware, engine, and the machines that the deployment occupies.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/core/workbench.h"

class QLabel;
class QToolButton;

namespace plimsoll::gui {

class HeaderBar final : public QWidget {
  Q_OBJECT
 public:
  explicit HeaderBar(Workbench& bench, QWidget* parent = nullptr);
  /// Shows the edited scenario.
  void refresh();
  /// Returns all that it shows in one line.
  [[nodiscard]] QString text() const;

 protected:
  void resizeEvent(QResizeEvent* event) override;

 Q_SIGNALS:
  /// The user wants to change this field of the study: "model", "hardware", "engine".
  void edit_wanted(const QString& path);

 private:
  QToolButton* make_button(const QString& path, const QString& name);
  /// A part of the row: in full, and as much as a narrow window shows.
  struct Part {
    QString full, brief;
  };
  void fit();
  [[nodiscard]] std::vector<QString> texts(int step) const;
  [[nodiscard]] int width_of(const std::vector<QString>& texts) const;
  void show_texts(const std::vector<QString>& texts);
  Workbench& bench_;
  QToolButton *model_ = nullptr, *hardware_ = nullptr, *engine_ = nullptr;
  QLabel* footprint_ = nullptr;
  std::vector<Part> names_;  // of the three buttons
  Part machines_;            // the footprint
};

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// The series of a plot as a column of buttons: a click hides or shows one, a double click shows it alone. Buttons, so that
// the keyboard and assistive technology reach them.
#pragma once

#include <QWidget>
#include <set>

#include "gui/plot/plot_view.h"

class QToolButton;
class QVBoxLayout;

namespace plimsoll::gui {

class Legend final : public QWidget {
  Q_OBJECT
 public:
  explicit Legend(QWidget* parent = nullptr);
  void show_series(const std::vector<PlotSeries>& series, const Theme& theme);
  [[nodiscard]] const std::set<QString>& hidden() const { return hidden_; }
  void clear_hidden();

 Q_SIGNALS:
  void changed();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void toggle(const QString& name);
  void solo(const QString& name);
  QVBoxLayout* layout_ = nullptr;
  std::vector<QToolButton*> buttons_;
  std::set<QString> hidden_;
};

}  // namespace plimsoll::gui

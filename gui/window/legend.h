// SPDX-License-Identifier: GPL-3.0-or-later
// The series of a plot as buttons, in a column beside it or in rows below. A click hides or shows a series, a double
// click shows it alone. They are buttons so that the keyboard and assistive technology can reach them.
#pragma once

#include <QWidget>
#include <set>

#include "gui/plot/plot_view.h"

class QBoxLayout;
class QToolButton;

namespace plimsoll::gui {

class Legend final : public QWidget {
  Q_OBJECT
 public:
  explicit Legend(QWidget* parent = nullptr);
  /// Replaces the buttons. Whether a series is hidden is kept by its name.
  void show_series(const std::vector<PlotSeries>& series, const Theme& theme);
  [[nodiscard]] const std::set<QString>& hidden() const { return hidden_; }
  /// Places the legend, the last item of `row`, beside the plot if a view of `width` pixels has room for both, else
  /// below it.
  void place_in(QBoxLayout& row, int width);

 Q_SIGNALS:
  /// The set of hidden series has changed.
  void changed();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void toggle(const QString& name);
  void solo(const QString& name);
  void lay_out();
  bool below_ = false;
  std::vector<QToolButton*> buttons_;
  std::set<QString> hidden_;
};

}  // namespace plimsoll::gui

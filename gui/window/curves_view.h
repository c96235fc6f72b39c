// SPDX-License-Identifier: GPL-3.0-or-later
// Plots any metric against any other, with measured points on top, and the residuals and the answer below.
#pragma once

#include <QElapsedTimer>
#include <QTimer>

#include "gui/window/answer_card.h"
#include "gui/window/curve_content.h"
#include "gui/window/view.h"

class QCheckBox;
class QComboBox;
class QDoubleSpinBox;
class QLabel;
class QToolButton;

namespace plimsoll::gui {

/// One curve for each shown scenario and combination of its swept values. The controls above the plot choose metrics,
/// scales and the limit. refresh() draws the plot; residuals, answer and notes follow in a later turn of the event
/// loop, so that a drag is never blocked for both.
class CurvesView final : public View {
  Q_OBJECT
 public:
  CurvesView(Workbench& bench, QWidget* parent = nullptr);
  [[nodiscard]] QString id() const override { return QStringLiteral("curves"); }
  [[nodiscard]] QString title() const override { return tr("Curves"); }
  void refresh() override;
  void set_theme(const Theme& theme) override;
  [[nodiscard]] TableData table() const override;
  void complete() override;
  [[nodiscard]] PictureParts picture() const override;
  void reset_zoom() override;
  void zoom_back() override;
  [[nodiscard]] PlotView& plot() { return *plot_; }
  [[nodiscard]] AnswerCard& card() { return *card_; }
  /// Returns what the controls choose; curve_content() draws it.
  [[nodiscard]] ContentChoice choice() const;
  /// Returns the lines of text below the plot: why figures are estimates, and what fails.
  [[nodiscard]] QString notes() const;
  [[nodiscard]] bool is_ready() const override { return !rest_.isActive(); }

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  QWidget* make_bar();
  QComboBox* metric_box(const QString& name, bool x);
  QComboBox* basis_box();
  void refresh_basis();
  QCheckBox* flag_box(const QString& text, const QString& help, bool ViewState::*flag);
  void activate(std::size_t series, std::size_t point, Qt::KeyboardModifiers modifiers);
  void move_limit(double value, bool finished);
  void arrange_bar();
  void refresh_rest();
  [[nodiscard]] bool has_room() const;
  void refresh_notes(bool settled);
  void leave_rest();
  PlotView *plot_ = nullptr, *residuals_ = nullptr;
  AnswerCard* card_ = nullptr;
  QLabel *summary_ = nullptr, *notes_ = nullptr;
  QComboBox *x_ = nullptr, *y_ = nullptr, *basis_ = nullptr;
  QDoubleSpinBox* limit_ = nullptr;
  /// A switch of the view, as a check box and in the menu that replaces the boxes in a narrow window.
  struct Flag {
    QCheckBox* box = nullptr;
    QAction* action = nullptr;
    bool ViewState::*which = nullptr;
  };
  std::vector<Flag> flags_;
  QWidget* bar_ = nullptr;
  QToolButton* show_ = nullptr;
  std::vector<SeriesSource> sources_;
  const Theme* theme_ = &light_theme();
  double dragged_limit_ = -1;
  QTimer rest_;
  QElapsedTimer rested_;
};

}  // namespace plimsoll::gui

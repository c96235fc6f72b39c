// SPDX-License-Identifier: GPL-3.0-or-later
// The SLO in the form of the scenario: a row for each limit, the value of the answer's point for each, and the safety
// margin.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/core/slo_form.h"
#include "gui/core/workbench.h"

class QComboBox;
class QGridLayout;
class QLabel;
class QLineEdit;
class QToolButton;

namespace plimsoll::gui {

/// Every edit is one step that can be undone. The SLO line of the curves is one of the rows and moves with it.
class SloPanel final : public QWidget {
  Q_OBJECT
 public:
  explicit SloPanel(Workbench& bench, QWidget* parent = nullptr);
  /// Shows the scenario's limits; called when the session changes.
  void refresh();
  /// Shows how close the answer's point is to each limit; called when the curves change.
  void refresh_standing();
  /// Adds a limit that the scenario does not have yet.
  void add_row();
  [[nodiscard]] std::size_t row_count() const { return rows_.size(); }
  [[nodiscard]] QLineEdit& limit_line(std::size_t row) { return *rows_.at(row).limit; }
  [[nodiscard]] QLabel& standing_label(std::size_t row) { return *rows_.at(row).standing; }
  [[nodiscard]] QToolButton& remove_button(std::size_t row) { return *rows_.at(row).remove; }
  [[nodiscard]] QComboBox& margin_box() { return *margin_; }
  /// Returns the lines of text below the rows.
  [[nodiscard]] QString notes() const;

 private:
  struct RowWidgets {
    QComboBox *statistic = nullptr, *quantity = nullptr;
    QLineEdit* limit = nullptr;
    QLabel* standing = nullptr;
    QToolButton* remove = nullptr;
  };
  void make_row();
  void make_margin();
  void show_row(std::size_t index, const SloRow& row);
  void enter();
  void apply(std::vector<SloRow> rows, const QString& label);
  [[nodiscard]] SloRow entered_row(const RowWidgets& row) const;
  [[nodiscard]] std::vector<SloRow> shown_rows() const;
  Workbench& bench_;
  QGridLayout* grid_ = nullptr;
  std::vector<RowWidgets> rows_;
  QLabel *empty_ = nullptr, *problem_ = nullptr, *attained_ = nullptr;
  QToolButton* add_ = nullptr;
  QComboBox* margin_ = nullptr;
};

}  // namespace plimsoll::gui

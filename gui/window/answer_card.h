// SPDX-License-Identifier: GPL-3.0-or-later
// The answer below the curves: the best curve in one line, its warnings as chips, and a table with a row for each
// curve. The table is also the legend: its check boxes hide and show the curves.
#pragma once

#include <QWidget>
#include <set>

#include "gui/core/answer_rows.h"
#include "gui/plot/theme.h"
#include "gui/window/view.h"

class QLabel;
class QTableWidget;
class QToolButton;

namespace plimsoll::gui {

class AnswerCard final : public QWidget {
  Q_OBJECT
 public:
  explicit AnswerCard(QWidget* parent = nullptr);
  /// Shows the rows. `limits` names the limits that they keep; empty: no limit. Until the results have `settled`, the
  /// card does not become lower: the plot above it would change its height at every step of a drag.
  void show_rows(const std::vector<AnswerRow>& rows, const QString& limits, bool settled);
  void set_theme(const Theme& theme);
  /// Returns the names of the curves that are hidden.
  [[nodiscard]] const std::set<QString>& hidden() const { return hidden_; }
  /// Returns the answer in one line.
  [[nodiscard]] QString headline() const;
  /// Returns the limits that the answer keeps; empty: none.
  [[nodiscard]] QString limits() const;
  /// Returns the rows with all their columns.
  [[nodiscard]] TableData table() const;
  [[nodiscard]] QTableWidget& rows() { return *rows_; }

 Q_SIGNALS:
  /// The set of hidden curves has changed.
  void changed();
  /// A row was chosen by a double click or Return.
  void chosen(std::size_t scenario);
  /// The user wants a scenario's runs to be long enough for a verdict.
  void longer_runs_wanted(std::size_t scenario, qint64 requests);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  struct Column;
  [[nodiscard]] static std::vector<Column> columns_of(const AnswerRow& row);
  void make_rows();
  void make_actions();
  void fill(const std::vector<AnswerRow>& rows);
  void fill_row(int r, const AnswerRow& row, const std::vector<Column>& cells, const QString& look);
  void show_chips(const AnswerRow* row, const AnswerRow* rival, bool settled);
  void toggle(int row);
  void show_alone(int row);
  void copy() const;
  void fit_height();
  void arrange_columns(const std::vector<std::vector<Column>>& cells, bool anew);
  QLabel *headline_ = nullptr, *limits_ = nullptr;
  QToolButton* longer_ = nullptr;  // offers runs that are long enough
  std::pair<std::size_t, qint64> offered_;
  QWidget* chips_ = nullptr;
  QTableWidget* rows_ = nullptr;
  std::set<QString> hidden_;
  TableData shown_;
  std::vector<int> widest_;  // for each column: the widest text when its width was last set, in pixels
  const Theme* theme_ = &light_theme();
};

}  // namespace plimsoll::gui

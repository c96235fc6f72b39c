// SPDX-License-Identifier: GPL-3.0-or-later
// The form of the planner's search: check boxes for instances, TP degrees, replicas and batch limits, the objective,
// and limits on price and GPUs.
#pragma once

#include <QWidget>
#include <string>
#include <vector>

#include "gui/core/plan_form.h"
#include "gui/core/workbench.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QListWidget;
class QToolButton;

namespace plimsoll::gui {

/// A row of check boxes for the values of one key. Values that are not among the usual ones get a box too.
class ValueBoxes final : public QWidget {
  Q_OBJECT
 public:
  ValueBoxes(const QString& label, const QStringList& usual, QWidget* parent);
  /// Checks these values; does not emit changed().
  void show_values(const std::vector<std::string>& values);
  [[nodiscard]] std::vector<std::string> values() const;
  /// Returns the box of a value; nullptr if there is none.
  [[nodiscard]] QCheckBox* box(const QString& value) const;

 Q_SIGNALS:
  void changed();

 private:
  QCheckBox* add(const QString& value);
  QString label_;
  QStringList usual_;
  std::vector<QCheckBox*> boxes_;
};

/// If the scenario states no search, the form shows one that is derived from it; the first change states it.
class PlanPanel final : public QWidget {
  Q_OBJECT
 public:
  explicit PlanPanel(Workbench& bench, QWidget* parent = nullptr);
  /// Shows the scenario's search, or the derived one.
  void refresh();
  [[nodiscard]] ValueBoxes& tp() { return *tp_; }
  [[nodiscard]] ValueBoxes& replicas() { return *replicas_; }
  [[nodiscard]] QListWidget& instances() { return *instances_; }
  [[nodiscard]] QComboBox& objective() { return *objective_; }
  [[nodiscard]] QLineEdit& budget() { return *budget_; }

 private:
  void make_instances();
  void make_limits();
  void fill_instances(const std::vector<std::string>& chosen);
  void filter_instances(const QString& text);
  [[nodiscard]] PlanForm shown_form() const;
  void enter();
  Workbench& bench_;
  PlanForm form_;  // as shown; keys that have no widget are kept
  QComboBox *objective_ = nullptr, *placing_ = nullptr;
  ValueBoxes *tp_ = nullptr, *replicas_ = nullptr, *batch_ = nullptr;
  QLineEdit *filter_ = nullptr, *budget_ = nullptr, *gpus_ = nullptr;
  QListWidget* instances_ = nullptr;
  QLabel* problem_ = nullptr;
  QToolButton* reset_ = nullptr;
  bool filled_ = false;
};

}  // namespace plimsoll::gui

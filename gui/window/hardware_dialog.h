// SPDX-License-Identifier: GPL-3.0-or-later
// The hardware picker: every instance of the catalogue by GPU, count, memory, links, cloud and price, with own prices.
#pragma once

#include <QDialog>
#include <vector>

#include "gui/core/hardware_list.h"
#include "gui/core/workbench.h"

class QComboBox;
class QDoubleSpinBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QTableWidget;
class QVBoxLayout;

namespace plimsoll::gui {

/// Several rows may be chosen; the scenario then sweeps them. Prices become part of the scenario.
class HardwareDialog final : public QDialog {
  Q_OBJECT
 public:
  explicit HardwareDialog(Workbench& bench, QWidget* parent = nullptr);
  void accept() override;
  [[nodiscard]] QTableWidget& table() { return *table_; }
  [[nodiscard]] QLineEdit& filter() { return *filter_; }
  [[nodiscard]] QDoubleSpinBox& discount() { return *discount_; }
  [[nodiscard]] QDoubleSpinBox& own_price() { return *own_; }
  [[nodiscard]] QDoubleSpinBox& gpu_hour() { return *gpu_hour_; }
  /// Returns how many rows are visible.
  [[nodiscard]] int shown() const;
  /// Selects the row of an instance; does nothing if there is none.
  void choose(const std::string& name);
  /// Returns what would be used, in words.
  [[nodiscard]] QString summary() const;

 private:
  void fill();
  void make_prices(QVBoxLayout& column);
  void apply_filter();
  void refresh_summary();
  [[nodiscard]] std::vector<const HardwareRow*> chosen() const;
  void show_own_price();
  [[nodiscard]] std::optional<double> own_price_of(const HardwareRow& row) const;
  [[nodiscard]] std::optional<double> price_of(const HardwareRow& row) const;
  Workbench& bench_;
  std::vector<HardwareRow> rows_;
  QLineEdit* filter_ = nullptr;
  QComboBox* cloud_ = nullptr;
  QTableWidget* table_ = nullptr;
  QDoubleSpinBox *discount_ = nullptr, *own_ = nullptr, *gpu_hour_ = nullptr;
  bool own_typed_ = false;  // by the user, for all chosen instances
  QLabel* summary_ = nullptr;
  QPushButton* use_ = nullptr;
};

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// Import of the user's own runs: which column is which figure, the labels that the file lacks, and the axis to show.
#pragma once

#include <QDialog>

#include "gui/core/import_form.h"
#include "gui/core/workbench.h"

class QComboBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QPushButton;
class QTableWidget;

namespace plimsoll::gui {

/// A row for each column of a table: its name, its first values, what it is read as, and its unit.
class ColumnTable final : public QWidget {
  Q_OBJECT
 public:
  explicit ColumnTable(QWidget* parent = nullptr);
  /// Shows the columns of a request, which must outlive the table; the user's choices are written into it.
  void show_request(ImportRequest* request);
  /// Returns the boxes of a column; its unit box is disabled if it is not read as a time.
  [[nodiscard]] QComboBox& figure_box(std::size_t column) const;
  [[nodiscard]] QComboBox& unit_box(std::size_t column) const;
  /// Reads a column as a figure, as the user would by its box.
  void choose(std::size_t column, const std::string& figure, const std::string& unit);

 Q_SIGNALS:
  void changed();

 private:
  void show_column(std::size_t column);
  ImportRequest* request_ = nullptr;
  QTableWidget* table_ = nullptr;
};

/// Adds the runs of a file to the session as a step that can be undone.
class ImportDialog final : public QDialog {
  Q_OBJECT
 public:
  /// Throws InputError if the file cannot be read as a table or as results of a known tool.
  ImportDialog(Workbench& bench, const QString& file, QWidget* parent = nullptr);
  void accept() override;
  [[nodiscard]] ColumnTable& columns() { return *columns_; }
  [[nodiscard]] QComboBox& y_box() { return *y_; }
  /// Returns what is missing, or what will be imported.
  [[nodiscard]] QString state() const;

 private:
  void make_labels(QFormLayout& form);
  void check();
  Workbench& bench_;
  ImportRequest request_;
  study::ImportedResults results_;
  ColumnTable* columns_ = nullptr;
  QLineEdit *model_ = nullptr, *hardware_ = nullptr, *engine_ = nullptr, *tp_ = nullptr, *replicas_ = nullptr;
  QLineEdit *input_ = nullptr, *output_ = nullptr;
  QComboBox* y_ = nullptr;
  QLabel* state_ = nullptr;
  QPushButton* import_ = nullptr;
};

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// A wizard that fits a profile of the user's own engine, to files of runs or to a running server. Its pages ask where
// the runs come from, what their columns mean and what is to be fitted, and show the errors in and out of the fit.
// `plimsoll calibrate --engine` does the work in a child process.
#pragma once

#include <QDialog>
#include <QJsonObject>
#include <memory>
#include <vector>

#include "gui/core/import_form.h"
#include "gui/plot/theme.h"
#include "gui/window/import_dialog.h"
#include "gui/window/run_dock.h"

class QCheckBox;
class QComboBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QListWidget;
class QPushButton;
class QRadioButton;
class QSpinBox;
class QStackedWidget;
class QTableWidget;

namespace plimsoll::gui {

class PlotView;

/// What the wizard asks `calibrate` for. Texts may be empty.
struct FitQuestion {
  QString name, like, model, hardware, memory, dtype, tp;
  bool fit_hardware = false;
  QString endpoint, key_variable;  // of a server; an empty endpoint: files
  int seconds = 0, users = 0;
};

/// Returns a message of `calibrate` with the labels of the wizard's fields in place of the options.
[[nodiscard]] QString in_words_of_the_form(QString message);

/// Runs the fit and shows its result.
class FitRun final : public RunDock {
  Q_OBJECT
 public:
  explicit FitRun(Workbench& bench, QWidget* parent = nullptr);
  /// Starts a fit. Files are imported as their requests describe and passed on as points.csv; a failure is shown.
  void fit(const FitQuestion& question, const std::vector<ImportRequest>& files);
  [[nodiscard]] QTableWidget& errors() { return *errors_; }
  [[nodiscard]] PlotView& parity() { return *parity_; }
  [[nodiscard]] QPushButton& use_button() { return *use_; }
  /// Returns the result in words, or why there is none.
  [[nodiscard]] QString verdict() const;
  void set_theme(const Theme& theme);

 protected:
  void clear() override;
  void finished(const QString& verb, int exit_code, const QString& text) override;

 private:
  void show_fit(const QJsonObject& line);
  void show_metric();
  void use();
  QTableWidget* errors_ = nullptr;
  PlotView* parity_ = nullptr;
  QComboBox* metric_ = nullptr;
  QLabel* verdict_ = nullptr;
  QPushButton* use_ = nullptr;
  QJsonObject fit_;
  FitQuestion question_;
};

class FitDialog final : public QDialog {
  Q_OBJECT
 public:
  explicit FitDialog(Workbench& bench, QWidget* parent = nullptr);
  /// Adds files of runs. Shows why a file cannot be read.
  void add_files(const QStringList& files);
  /// Chooses a server instead of files.
  void choose_server(const QString& address);
  /// Goes on to the next page; on the page before the last, starts the fit.
  void next();
  void back();
  [[nodiscard]] int page() const;
  [[nodiscard]] FitRun& run() { return *run_; }
  [[nodiscard]] ColumnTable& columns() { return *columns_; }
  [[nodiscard]] QLineEdit& name_line() { return *name_; }
  /// Returns what is missing on the present page; empty if it is complete.
  [[nodiscard]] QString problem() const;
  void set_theme(const Theme& theme) { run_->set_theme(theme); }

 protected:
  void reject() override;

 private:
  QWidget* make_source();
  QFormLayout* make_server(QWidget* page);
  QWidget* make_columns();
  QWidget* make_engine();
  void offer_models();
  void show_file(int index);
  void remove_file(int index);
  void name_files();
  void refresh();
  [[nodiscard]] FitQuestion question() const;
  Workbench& bench_;
  std::vector<std::unique_ptr<ImportRequest>> files_;  // the tables point to them
  QStackedWidget* pages_ = nullptr;
  QLabel *title_ = nullptr, *problem_ = nullptr;
  QRadioButton *from_files_ = nullptr, *from_server_ = nullptr;
  QListWidget* list_ = nullptr;
  QLineEdit *endpoint_ = nullptr, *key_ = nullptr;
  QSpinBox *seconds_ = nullptr, *users_ = nullptr;
  QComboBox* file_ = nullptr;
  ColumnTable* columns_ = nullptr;
  QLineEdit *name_ = nullptr, *model_ = nullptr, *hardware_ = nullptr, *memory_ = nullptr, *tp_ = nullptr;
  QComboBox *like_ = nullptr, *dtype_ = nullptr;
  QCheckBox* fit_hardware_ = nullptr;
  FitRun* run_ = nullptr;
  QPushButton *back_ = nullptr, *next_ = nullptr, *close_ = nullptr;
  QString file_problem_;
};

}  // namespace plimsoll::gui

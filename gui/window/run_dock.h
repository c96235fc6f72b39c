// SPDX-License-Identifier: GPL-3.0-or-later
// Docks that run a child process: measuring (and calibrating) on this machine, and the decision.
#pragma once

#include <QJsonObject>
#include <QTemporaryDir>
#include <QWidget>
#include <memory>
#include <vector>

#include "gui/core/child_run.h"
#include "gui/core/workbench.h"
#include "gui/window/view.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QTableWidget;
class QVBoxLayout;

namespace plimsoll::gui {

/// Buttons, progress and log of one child process.
class RunDock : public QWidget {
  Q_OBJECT
 public:
  RunDock(Workbench& bench, QWidget* parent);
  [[nodiscard]] ChildRun& run() { return run_; }
  void cancel() { run_.cancel(); }

 protected:
  QPushButton* add_button(const QString& text, const QString& help);
  /// Runs `plimsoll VERB STUDY OPTIONS --progress jsonl` on the current scenario. False where that cannot be.
  bool start(const QString& verb, const QStringList& options, bool with_study = true);
  void say(const QString& text);
  virtual void clear() {}
  Workbench& bench_;
  ChildRun run_;
  QVBoxLayout* column_ = nullptr;
  std::vector<QPushButton*> starters_;

 private:
  void refresh_buttons();
  void end(int exit_code, const QString& text);
  QWidget* buttons_ = nullptr;
  QPushButton *pause_ = nullptr, *cancel_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QLabel* state_ = nullptr;
  QPlainTextEdit* log_ = nullptr;
  std::unique_ptr<QTemporaryDir> folder_;
};

class LiveDock final : public RunDock {
  Q_OBJECT
 public:
  LiveDock(Workbench& bench, QWidget* parent = nullptr);
  void measure();

 protected:
  void clear() override;

 private:
  QComboBox* device_ = nullptr;
  std::vector<PointRow> rows_;
};

class DecisionDock final : public RunDock {
  Q_OBJECT
 public:
  DecisionDock(Workbench& bench, QWidget* parent = nullptr);
  void plan();
  [[nodiscard]] TableData table() const;

 protected:
  void clear() override;

 private:
  void add(const QString& type, const QJsonObject& line);
  QTableWidget* ranking_ = nullptr;
  QLabel* best_ = nullptr;
};

}  // namespace plimsoll::gui

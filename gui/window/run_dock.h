// SPDX-License-Identifier: GPL-3.0-or-later
// The common part of docks that run a child process: buttons, progress, pause, cancel, messages.
#pragma once

#include <QTemporaryDir>
#include <QWidget>
#include <memory>
#include <vector>

#include "gui/core/child_run.h"
#include "gui/core/workbench.h"

class QLabel;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QVBoxLayout;

namespace plimsoll::gui {

/// Buttons, progress and log of one child process. One run at a time. Its files live until the next run starts.
class RunDock : public QWidget {
  Q_OBJECT
 public:
  RunDock(Workbench& bench, QWidget* parent);
  [[nodiscard]] ChildRun& run() { return run_; }
  void cancel() { run_.cancel(); }

 protected:
  QPushButton* add_button(const QString& text, const QString& help);
  /// Runs `plimsoll VERB [STUDY] OPTIONS --progress jsonl`. `study` is the text of the study file, or empty for a verb
  /// without one. Returns false if the run cannot start.
  bool start(const QString& verb, const QStringList& options, const std::string& study);
  /// Disables the buttons that start a run, with the reason as their tool tip. An empty reason enables them again.
  void hold(const QString& why);
  /// Adds a line to the log.
  void say(const QString& text);
  void show_log(bool shown);
  /// For logs that are reports: the reader begins with the first line.
  void show_log_from_top();
  /// Shows why a run cannot start.
  void refuse(const QString& why);
  /// Called before a run.
  virtual void clear() {}
  /// Called after a run. `text` is the error message, or empty on success.
  virtual void finished(const QString& verb, int exit_code, const QString& text);
  /// Returns the folder for the run's files. It exists during the run and until the next one.
  [[nodiscard]] QString folder() const { return folder_->path(); }
  /// Creates a new folder, so that files of the last run are not mistaken for those of the next.
  void make_folder() { folder_ = std::make_unique<QTemporaryDir>(); }
  [[nodiscard]] QLabel& state() { return *state_; }
  Workbench& bench_;
  std::unique_ptr<QTemporaryDir> folder_ =
      std::make_unique<QTemporaryDir>();  // outlives the child, which writes into it
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
  QString verb_, held_;
};

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// Runs a `plimsoll` command in a child process and reads its --progress jsonl lines (docs/study-file.md). A child that
// crashes, hangs, prints garbage or never ends a line is reported and does not affect this process.
#pragma once

#include <QElapsedTimer>
#include <QJsonObject>
#include <QObject>
#include <QProcess>
#include <QTimer>

#include "gui/core/metrics.h"

namespace plimsoll::gui {

/// One child process at a time; a new run may start once state() is idle. Belongs to one thread, which must run an
/// event loop. The destructor kills a child that is still running.
class ChildRun final : public QObject {
  Q_OBJECT
 public:
  enum class State : unsigned char { idle, running, paused, cancelling };
  struct Patience {       // in milliseconds
    int silence = 15000;  // without a line for this long, the child is reported as silent
    int cancel = 3000;    // from the cancel line to SIGTERM, and from SIGTERM to SIGKILL
  };

  explicit ChildRun(QObject* parent = nullptr) : ChildRun(Patience{}, parent) {}
  explicit ChildRun(Patience patience, QObject* parent = nullptr);
  ~ChildRun() override;
  ChildRun(const ChildRun&) = delete;
  ChildRun& operator=(const ChildRun&) = delete;

  /// Returns the program beside this one, or $PLIMSOLL_PROGRAM if it is set.
  [[nodiscard]] static QString program();
  /// Starts a run. Returns false if another is in progress.
  bool start(const QString& program, const QStringList& arguments);
  /// Ask the child to pause or to continue. They have no effect in other states.
  void pause();
  void resume();
  /// Cancels: first by a line to the child, then by SIGTERM, then by SIGKILL. Results received so far are kept.
  void cancel();
  [[nodiscard]] State state() const { return state_; }

 Q_SIGNALS:
  /// Emitted after every change of state().
  void state_changed();
  void progressed(double done, double total, double eta_s);  // eta_s < 0 if unknown
  /// A `point` line: a finished point of the run.
  void point(const plimsoll::gui::PointRow& row);
  /// Any other line with a known `type`.
  void object(const QString& type, const QJsonObject& line);
  /// A `log` line, or a warning about the child's behaviour. `level` is that of the line, such as "warning".
  void logged(const QString& level, const QString& text);
  /// Emitted once at the end of a run. `text` is empty on success.
  void ended(int exit_code, const QString& text);

 private:
  void set_state(State state);
  void read();
  void read_line(const QByteArray& line);
  void finish(int exit_code, QProcess::ExitStatus status);
  void fail_to_start(QProcess::ProcessError error);
  void check_silence();
  [[nodiscard]] QString verdict(int exit_code, QProcess::ExitStatus status) const;

  Patience patience_;
  QProcess process_;
  QTimer insist_, watch_;
  QElapsedTimer last_line_;
  QByteArray buffer_;
  QString error_;      // from the child's own error message
  QByteArray stderr_;  // the end of its standard error
  // Number of lines that could not be parsed; reported at the end.
  int garbage_ = 0;
  bool said_silent_ = false;
  bool skipping_ = false;  // dropping the rest of a line that is too long
  State state_ = State::idle;
  bool was_cancelled_ = false, done_ = false;
};

}  // namespace plimsoll::gui

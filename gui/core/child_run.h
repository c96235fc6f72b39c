// SPDX-License-Identifier: GPL-3.0-or-later
// A command of `plimsoll` in a process of its own, followed by its --progress jsonl lines (docs/study-file.md).
// Whatever the child does (crash, hang, print nonsense, fill a line without end), this side says so and goes on.
#pragma once

#include <QElapsedTimer>
#include <QJsonObject>
#include <QObject>
#include <QProcess>
#include <QTimer>

#include "gui/core/metrics.h"

namespace plimsoll::gui {

class ChildRun final : public QObject {
  Q_OBJECT
 public:
  enum class State : unsigned char { idle, running, paused, cancelling };
  struct Patience {       // milliseconds
    int silence = 15000;  // after this long without a line the child is said to be silent
    int cancel = 3000;    // from the cancel line to SIGTERM, and from there to SIGKILL
  };

  explicit ChildRun(QObject* parent = nullptr) : ChildRun(Patience{}, parent) {}
  explicit ChildRun(Patience patience, QObject* parent = nullptr);
  ~ChildRun() override;
  ChildRun(const ChildRun&) = delete;
  ChildRun& operator=(const ChildRun&) = delete;

  /// The program beside this one; $PLIMSOLL_PROGRAM where it is set.
  [[nodiscard]] static QString program();
  /// One at a time: false while another runs.
  bool start(const QString& program, const QStringList& arguments);
  void pause();
  void resume();
  /// Asks, then insists, then kills. What has arrived is kept.
  void cancel();
  [[nodiscard]] State state() const { return state_; }

 Q_SIGNALS:
  void state_changed();
  void progressed(double done, double total, double eta_s);  // eta_s < 0: not known
  void point(const plimsoll::gui::PointRow& row);
  /// Any other line with a type of its own.
  void object(const QString& type, const QJsonObject& line);
  void logged(const QString& level, const QString& text);
  /// The last word on this run; `text` is empty where it ended as it should.
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
  QString error_;      // of the child's own error line
  QByteArray stderr_;  // its end
  int garbage_ = 0;
  bool said_silent_ = false;
  bool skipping_ = false;  // in the rest of a line that is too long
  State state_ = State::idle;
  bool was_cancelled_ = false, done_ = false;
};

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/child_run.h"

#include <QCoreApplication>
#include <QJsonDocument>
#include <algorithm>
#include <csignal>

#include "gui/core/overlay.h"
#include "gui/core/text.h"

#ifdef __linux__
#include <sys/prctl.h>
#include <unistd.h>
#endif

namespace plimsoll::gui {
namespace {

constexpr qsizetype kMaxLine = 1 << 20;
constexpr qsizetype kKeptErrors = 4000;

study::Cell cell_of(const QJsonValue& value) {
  if (value.isDouble()) return value.toDouble();
  if (value.isBool()) return value.toBool();
  if (value.isString()) return utf8(value.toString());
  return {};
}

PointRow row_of(const QJsonObject& line) {
  std::vector<std::pair<std::string, study::Cell>> cells;
  for (auto it = line.begin(); it != line.end(); ++it) cells.emplace_back(utf8(it.key()), cell_of(it.value()));
  PointRow row = overlay_row(cells);
  row.result.index = static_cast<std::size_t>(std::clamp(line.value(QStringLiteral("index")).toDouble(), 0.0, 1e9));
  return row;
}

// A window that crashes or is killed cannot cancel its children. So the system ends them with it.
void end_with_window([[maybe_unused]] QProcess& process) {
#ifdef __linux__
  process.setChildProcessModifier([window = ::getpid()] {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != window) ::_exit(1);  // it ended before the call above
  });
#endif
}

}  // namespace

// cancel() sends a line on standard input. If the process is still running after `patience.cancel`, it gets SIGTERM,
// and SIGKILL after the same time again.
ChildRun::ChildRun(Patience patience, QObject* parent) : QObject(parent), patience_(patience) {
  end_with_window(process_);
  insist_.setSingleShot(true);
  watch_.setInterval(std::max(50, patience_.silence / 3));
  connect(&watch_, &QTimer::timeout, this, &ChildRun::check_silence);
  connect(&process_, &QProcess::readyReadStandardOutput, this, &ChildRun::read);
  connect(&process_, &QProcess::readyReadStandardError, this,
          [this] { stderr_ = (stderr_ + process_.readAllStandardError()).right(kKeptErrors); });
  connect(&process_, &QProcess::finished, this, &ChildRun::finish);
  connect(&process_, &QProcess::errorOccurred, this, &ChildRun::fail_to_start);
  connect(&insist_, &QTimer::timeout, this, [this] {
    if (process_.state() == QProcess::NotRunning) return;
    process_.terminate();
    QTimer::singleShot(patience_.cancel, this, [this] {
      if (state_ == State::cancelling) process_.kill();
    });
  });
}

// Disconnects first: the signals of a process that is killed here would reach a half-destroyed object.
ChildRun::~ChildRun() {
  process_.disconnect(this);
  if (process_.state() == QProcess::NotRunning) return;
  process_.kill();
  process_.waitForFinished(2000);
}

QString ChildRun::program() {
  const QString stated = qEnvironmentVariable("PLIMSOLL_PROGRAM");
  return stated.isEmpty() ? QCoreApplication::applicationDirPath() + QStringLiteral("/plimsoll") : stated;
}

void ChildRun::set_state(State state) {
  if (state_ == state) return;
  state_ = state;
  Q_EMIT state_changed();
}

// Every run starts clean; `done_` distinguishes a complete run from one that ended early.
bool ChildRun::start(const QString& program, const QStringList& arguments) {
  if (state_ != State::idle) return false;
  buffer_.clear();
  stderr_.clear();
  error_.clear();
  garbage_ = 0;
  skipping_ = was_cancelled_ = done_ = said_silent_ = false;
  set_state(State::running);
  last_line_.start();
  watch_.start();
  process_.start(program, arguments);
  return true;
}

void ChildRun::pause() {
  if (state_ != State::running) return;
  process_.write("pause\n");
  set_state(State::paused);
}

void ChildRun::resume() {
  if (state_ != State::paused) return;
  process_.write("resume\n");
  last_line_.restart();
  set_state(State::running);
}

void ChildRun::cancel() {
  if (state_ == State::idle || state_ == State::cancelling) return;
  was_cancelled_ = true;
  process_.write("cancel\n");
  set_state(State::cancelling);
  insist_.start(patience_.cancel);
}

void ChildRun::check_silence() {
  if (state_ != State::running || said_silent_ || last_line_.elapsed() < patience_.silence) return;
  said_silent_ = true;
  Q_EMIT logged(QStringLiteral("warning"),
                tr("no heartbeat for %1 s; cancel ends the process").arg(last_line_.elapsed() / 1000));
}

void ChildRun::read() {
  // Only whole lines are parsed. A line above kMaxLine is dropped up to its end, so memory stays bounded.
  buffer_ += process_.readAllStandardOutput();
  for (qsizetype end = buffer_.indexOf('\n'); end >= 0; end = buffer_.indexOf('\n')) {
    const QByteArray line = buffer_.left(end);
    buffer_.remove(0, end + 1);
    if (skipping_)
      skipping_ = false;
    else
      read_line(line);
  }
  if (buffer_.size() <= kMaxLine) return;
  buffer_.clear();
  if (!skipping_) ++garbage_;
  skipping_ = true;
}

void ChildRun::read_line(const QByteArray& line) {
  if (line.trimmed().isEmpty()) return;
  // Any line shows that the process is alive, even one that is not understood.
  last_line_.restart();
  said_silent_ = false;
  // An old or a different program prints other text. One warning is enough; the final message counts the lines.
  const QJsonDocument document = QJsonDocument::fromJson(line);
  const QJsonObject object_line = document.object();
  const QString type = object_line.value(QStringLiteral("type")).toString();
  if (!document.isObject() || type.isEmpty()) {
    if (++garbage_ == 1)
      Q_EMIT logged(QStringLiteral("warning"),
                    tr("the process printed a line that is not JSON: %1").arg(QString::fromUtf8(line.left(120))));
    return;
  }
  if (type == QStringLiteral("progress")) {
    Q_EMIT progressed(object_line.value(QStringLiteral("done")).toDouble(),
                      object_line.value(QStringLiteral("total")).toDouble(),
                      object_line.value(QStringLiteral("eta_s")).toDouble(-1));
  } else if (type == QStringLiteral("point")) {
    Q_EMIT point(row_of(object_line));
  } else if (type == QStringLiteral("log")) {
    Q_EMIT logged(object_line.value(QStringLiteral("level")).toString(),
                  object_line.value(QStringLiteral("text")).toString());
  } else if (type == QStringLiteral("error")) {
    error_ = object_line.value(QStringLiteral("text")).toString();
  } else if (type == QStringLiteral("done")) {
    done_ = true;
  } else {
    Q_EMIT object(type, object_line);
  }
}

// Returns why the run failed; empty if it did not. Causes are tested from the most to the least certain one.
QString ChildRun::verdict(int exit_code, QProcess::ExitStatus status) const {
  if (was_cancelled_) return {};
  if (status == QProcess::CrashExit)
    return tr("the process crashed (signal %1); the points received before are kept").arg(exit_code);
  if (!error_.isEmpty()) return error_;
  // Exit code 4 means that the answer is no (cli/commands.h); the results are valid.
  if (exit_code != 0 && exit_code != 4) {
    const QString last = QString::fromUtf8(stderr_).trimmed().section(QChar(u'\n'), -1);
    return last.isEmpty() ? tr("the process ended with exit code %1").arg(exit_code) : last;
  }
  if (!done_) return tr("the process ended without reporting that it was done");
  if (garbage_ > 0) return tr("%1 lines of the process could not be read").arg(garbage_);
  return {};
}

void ChildRun::finish(int exit_code, QProcess::ExitStatus status) {
  // The output may end without a newline, so the rest of the buffer is a line too.
  read();
  if (!buffer_.isEmpty()) read_line(std::exchange(buffer_, {}));
  stderr_ = (stderr_ + process_.readAllStandardError()).right(kKeptErrors);
  watch_.stop();
  insist_.stop();
  const QString text = verdict(exit_code, status);
  set_state(State::idle);
  Q_EMIT ended(exit_code, text);
}

void ChildRun::fail_to_start(QProcess::ProcessError error) {
  if (error != QProcess::FailedToStart) return;  // other errors are reported by finished()
  watch_.stop();
  set_state(State::idle);
  Q_EMIT ended(-1, tr("%1 cannot be started: %2").arg(process_.program(), process_.errorString()));
}

}  // namespace plimsoll::gui

// SPDX-License-Identifier: GPL-3.0-or-later
// The background lane for long work: sweeps, timelines, paired comparisons. It runs one task at a time on one thread. A
// newer task of the same name replaces an older one. It pauses while the interactive lane works.
#pragma once

#include <QObject>
#include <QString>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "study/run/run_control.h"

namespace plimsoll::gui {

/// Runs one task after the other in a thread of its own; results are delivered to the window's thread.
class TaskLane final : public QObject {
  Q_OBJECT
 public:
  /// Runs on the lane's thread. The function that it returns runs in the thread of the lane's object, unless the task
  /// was replaced or cancelled. If it throws, failed() carries the message.
  using Work = std::function<std::function<void()>(study::RunControl& control)>;

  explicit TaskLane(QObject* parent = nullptr);
  ~TaskLane() override;
  TaskLane(const TaskLane&) = delete;
  TaskLane& operator=(const TaskLane&) = delete;

  /// Queues a task and returns immediately. It replaces a waiting or running task of the same name.
  void start(const QString& name, Work work);
  /// Drop waiting tasks and ask the running one to stop. Its result is discarded.
  void cancel(const QString& name);
  void cancel_all();
  /// With `paused`, pauses the running task and holds back waiting ones; otherwise continues them.
  void set_paused(bool paused);
  [[nodiscard]] bool busy() const;
  /// Returns the name of the running task; empty if none.
  [[nodiscard]] QString current() const;

 Q_SIGNALS:
  /// All signals are emitted in the thread of this object. finished() follows every started(), also after a failure or
  /// a cancellation.
  void started(const QString& name);
  void finished(const QString& name);
  void failed(const QString& name, const QString& text);

 private:
  struct Task {
    QString name;
    Work work;
    study::RunControl control;
    bool cancelled = false;
  };
  void work(const std::stop_token& stop);
  void run(const std::shared_ptr<Task>& task);
  void end(const std::shared_ptr<Task>& task, const std::function<void()>& show, const QString& error);
  static void drop(Task& task);

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::shared_ptr<Task>> waiting_;
  std::shared_ptr<Task> running_;  // shared with the event that delivers its result
  bool paused_ = false;
  std::jthread thread_;
};

}  // namespace plimsoll::gui

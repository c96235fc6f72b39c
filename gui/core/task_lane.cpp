// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/task_lane.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "gui/core/text.h"

namespace plimsoll::gui {

TaskLane::TaskLane(QObject* parent) : QObject(parent), thread_([this](const std::stop_token& stop) { work(stop); }) {}

TaskLane::~TaskLane() {
  cancel_all();
  thread_.request_stop();
  wake_.notify_all();
}

// Requires the lock. The task ends when it next checks its control; end() then discards its result.
void TaskLane::drop(Task& task) {
  task.cancelled = true;
  task.control.cancel();
}

void TaskLane::start(const QString& name, Work work) {
  cancel(name);
  auto task = std::make_shared<Task>();
  task->name = name;
  task->work = std::move(work);
  const std::lock_guard lock(mutex_);
  if (paused_) task->control.pause();
  waiting_.push_back(std::move(task));
  wake_.notify_all();
}

void TaskLane::cancel(const QString& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](const auto& task) { return task->name == name; });
  if (running_ && running_->name == name) drop(*running_);
}

void TaskLane::cancel_all() {
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  if (running_) drop(*running_);
}

void TaskLane::set_paused(bool paused) {
  const std::lock_guard lock(mutex_);
  paused_ = paused;
  if (running_) paused ? running_->control.pause() : running_->control.resume();
  for (const auto& task : waiting_) paused ? task->control.pause() : task->control.resume();
  wake_.notify_all();
}

bool TaskLane::busy() const {
  const std::lock_guard lock(mutex_);
  return running_ != nullptr || !waiting_.empty();
}

QString TaskLane::current() const {
  const std::lock_guard lock(mutex_);
  return running_ ? running_->name : QString();
}

void TaskLane::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!wake_.wait(lock, stop, [this] { return !waiting_.empty() && !paused_; })) return;
    running_ = waiting_.front();
    waiting_.pop_front();
    // Works without the lock, so that the window's thread can pause or cancel the task.
    const std::shared_ptr<Task> task = running_;
    lock.unlock();
    run(task);
    lock.lock();
  }
}

// Runs in the lane's thread. Signals and results are posted to the window's thread.
void TaskLane::run(const std::shared_ptr<Task>& task) {
  QMetaObject::invokeMethod(
      this, [this, name = task->name] { Q_EMIT started(name); }, Qt::QueuedConnection);
  std::function<void()> show;
  QString error;
  try {
    show = task->work(task->control);
  } catch (const std::exception& failure) {
    error = qs(failure.what());
  }
  QMetaObject::invokeMethod(
      this, [this, task, show, error] { end(task, show, error); }, Qt::QueuedConnection);
}

// Runs in the window's thread. The task may have been cancelled after its result was posted.
void TaskLane::end(const std::shared_ptr<Task>& task, const std::function<void()>& show, const QString& error) {
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    cancelled = task->cancelled;
    if (running_ == task) running_.reset();  // work() may have begun the next one
  }
  if (!cancelled && !error.isEmpty()) Q_EMIT failed(task->name, error);
  if (!cancelled && error.isEmpty() && show) show();
  Q_EMIT finished(task->name);
}

}  // namespace plimsoll::gui

// SPDX-License-Identifier: Apache-2.0
#include "exec/live/step_workers.h"

#include <algorithm>
#include <utility>

#include "model/error.h"

namespace plimsoll::exec {

StepWorkers::StepWorkers(const std::vector<ForwardDevice*>& devices, const std::vector<StepBuilderConfig>& configs,
                         const PromptSource& prompts) {
  for (std::size_t i = 0; i < devices.size(); ++i)
    workers_.push_back(std::make_unique<Worker>(configs[i], prompts, *devices[i]));
  try {
    for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i]->thread = std::thread([this, i] { serve(i); });
  } catch (...) {  // a thread could not be started: end those that run
    stop();
    throw;
  }
}

StepWorkers::~StepWorkers() { stop(); }

void StepWorkers::stop() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
    for (const auto& worker : workers_) {
      worker->end_order = true;
      worker->wake.notify_one();
    }
  }
  for (const auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

// ---- the control thread's side ------------------------------------------------------------------------------

Nanos StepWorkers::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - origin_).count();
}

void StepWorkers::start_clock() {
  const std::lock_guard lock(mutex_);
  origin_ = Clock::now();
}

void StepWorkers::submit(std::size_t replica, StepOrder order) {
  Worker& worker = *workers_[replica];
  const std::lock_guard lock(mutex_);
  PLIMSOLL_CHECK(!worker.order, "a worker has one order at a time");
  worker.order = std::move(order);
  worker.end_order = false;
  worker.wake.notify_one();
}

void StepWorkers::end_order(std::size_t replica) {
  const std::lock_guard lock(mutex_);
  workers_[replica]->end_order = true;
}

// Ends are stamped under the lock, so a step that is not reported yet ends after the returned time.
Nanos StepWorkers::wait(Nanos until, std::vector<StepReport>& reports) {
  std::unique_lock lock(mutex_);
  const auto has_news = [this] { return has_last_ || woken_ || failure_; };
  if (until == sched::kNever)
    news_.wait(lock, has_news);
  else
    news_.wait_until(lock, origin_ + std::chrono::nanoseconds(until), has_news);
  if (failure_ && reports_.empty()) std::rethrow_exception(failure_);  // report the steps that ended before it first
  reports.insert(reports.end(), reports_.begin(), reports_.end());
  reports_.clear();
  has_last_ = woken_ = false;
  return now();
}

void StepWorkers::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  tell();
}

void StepWorkers::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  tell();
}

// ---- the workers' side --------------------------------------------------------------------------------------

void StepWorkers::serve(std::size_t replica) {
  Worker& worker = *workers_[replica];
  while (true) {
    std::optional<StepOrder> order;
    {
      std::unique_lock lock(mutex_);
      worker.wake.wait(lock, [&] { return quit_ || worker.order; });
      if (quit_) return;
      order = std::exchange(worker.order, std::nullopt);
    }
    try {
      run_order(replica, *order);
    } catch (...) {
      fail(std::current_exception());
      return;
    }
  }
}

void StepWorkers::tell() {
  news_.notify_one();
  if (on_news) on_news();
}

namespace {
bool moves_blocks(const StepOrder& order) {
  return std::any_of(order.kv.begin(), order.kv.end(), [](const sched::KvOp& op) {
    return op.kind == sched::KvOp::Kind::swap_out || op.kind == sched::KvOp::Kind::swap_in;
  });
}
}  // namespace

void StepWorkers::run_order(std::size_t replica, const StepOrder& order) {
  Worker& worker = *workers_[replica];
  StepBuilder& builder = worker.builder;
  const std::size_t forwards = order.forwards.size();
  Progress done;
  const Nanos taken = now();
  builder.begin(order);
  start_step(builder, order, done);
  if (moves_blocks(order)) done.starts.front() = taken;  // copying blocks counts as device time
  const bool may_run_ahead = order.inflight > 1 && forwards == 1 && builder.may_run_ahead(order);
  while (true) {
    if (may_run_ahead && done.started - done.ended == 1 && goes_on(worker, order, done))
      start_step(builder, order, done);
    // Start each forward before the previous one is collected, so that the device does not idle between them.
    for (std::size_t i = 1; i < forwards; ++i) {
      builder.start(order, done.ended, i);
      builder.finish();
    }
    builder.finish();
    builder.end_step();
    if (end_step(replica, order, done)) return;
    if (done.started == done.ended) start_step(builder, order, done);
  }
}

void StepWorkers::start_step(StepBuilder& builder, const StepOrder& order, Progress& done) const {
  builder.prepare(order, done.started++, 0);
  done.starts.push_back(now());
  builder.launch();
}

// Returns whether another step may start while one is in flight.
bool StepWorkers::goes_on(const Worker& worker, const StepOrder& order, const Progress& done) {
  const std::lock_guard lock(mutex_);
  return done.started < order.steps && !worker.end_order && now() < order.wake_at;
}

// Reports the oldest step in flight. Returns true if it was the last of its order. Only then is the control thread
// woken: waking it for every step would delay the next step, and could take its core.
bool StepWorkers::end_step(std::size_t replica, const StepOrder& order, Progress& done) {
  const std::lock_guard lock(mutex_);
  const StepSpan span{done.starts.front(), now()};
  done.starts.pop_front();
  ++done.ended;
  // The order ends only when nothing is in flight: a step that was started ahead still has to be reported.
  const bool stops = done.ended == order.steps || workers_[replica]->end_order || span.end >= order.wake_at;
  const bool last = stops && done.started == done.ended;
  reports_.push_back({replica, span, last});
  has_last_ = has_last_ || last;
  if (last) tell();
  return last;
}

}  // namespace plimsoll::exec

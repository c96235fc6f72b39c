// SPDX-License-Identifier: Apache-2.0
#include "study/run/run_control.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace plimsoll::study {
namespace {

class Crew {
 public:
  Crew(std::size_t count, RunControl* control, const std::function<void(std::size_t)>& work)
      : count_(count), control_(control), work_(work) {}

  void run(std::size_t jobs) {
    if (jobs <= 1) {
      take_turns();  // without a thread pool, because starting one takes longer than a small study
    } else {
      // Each worker takes the next index until none is left: points differ in length by orders of magnitude, so shares
      // fixed in advance would end unevenly.
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, jobs);
      tbb::task_arena arena(static_cast<int>(jobs));
      arena.execute([&] {
        tbb::parallel_for(
            std::size_t{0}, jobs, [this](std::size_t) { take_turns(); }, tbb::simple_partitioner());
      });
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void take_turns() {
    while (!failed_.load(std::memory_order_relaxed)) {
      if (control_ != nullptr) control_->check_in();
      if (control_ != nullptr && control_->cancelled()) return;
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      try {
        work_(index);
      } catch (...) {
        fail(index, std::current_exception());
      }
    }
  }

  // Units start in order, so the first one that fails has been started.
  void fail(std::size_t index, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_ || index < failed_at_) {
      failure_ = std::move(failure);
      failed_at_ = index;
    }
    failed_ = true;
  }

  std::size_t count_;
  RunControl* control_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::size_t failed_at_ = 0;
};

}  // namespace

void run_pieces(std::size_t count, int jobs, RunControl* control, const std::function<void(std::size_t)>& work) {
  const std::size_t threads =
      jobs > 0 ? static_cast<std::size_t>(jobs) : std::max(1U, std::thread::hardware_concurrency());
  Crew(count, control, work).run(std::min(threads, count));
}

}  // namespace plimsoll::study

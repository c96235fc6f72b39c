// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/thread_pool.h"

#include <sched.h>

#include <utility>

#include "model/error.h"

namespace plimsoll::exec {

namespace {

// A pause is some 40 cycles: about 4 us. Afterwards a waiting thread gives its core to whoever else wants it, and after
// about 50 us in all it sleeps, which costs its waker a system call.
constexpr int kPauses = 256;
constexpr int kYields = 128;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// True once ready() is; false if it was not for a while.
template <class Ready>
bool spin(const Ready& ready) {
  for (int i = 0; i < kPauses; ++i) {
    if (ready()) return true;
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    sched_yield();
  }
  return ready();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  PLIMSOLL_CHECK(threads >= 1, "the caller is one of the threads");
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (...) {
    end_workers();                     // the system has no more threads: those that run must end first
    throw;
  }
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ++generation_;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::call(int thread) {
  try {
    body_(object_, thread);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

// Sleeping and waking meet like this: a worker counts itself a sleeper and then looks at the generation once more; the
// driver raises the generation and then looks for sleepers. Both in one total order, so one of them sees the other.
void ThreadPool::run_erased(Erased body, void* object) {
  body_ = body;
  object_ = object;
  busy_.store(static_cast<std::int32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1);
  if (sleepers_.load() > 0) {
    { const std::lock_guard lock(mutex_); }
    start_.notify_all();
  }
  call(0);
  const auto all_done = [this] { return busy_.load() == 0; };
  if (!spin(all_done)) {
    std::unique_lock lock(mutex_);
    driver_sleeps_.store(true);
    done_.wait(lock, all_done);
    driver_sleeps_.store(false);
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(int thread) {
  std::uint32_t seen = 0;
  while (true) {
    const auto called = [&] { return generation_.load() != seen; };
    if (!spin(called)) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      start_.wait(lock, called);
      --sleepers_;
    }
    seen = generation_.load();
    if (stop_) return;
    call(thread);
    if (busy_.fetch_sub(1) == 1 && driver_sleeps_.load()) {
      { const std::lock_guard lock(mutex_); }
      done_.notify_one();
    }
  }
}

}  // namespace plimsoll::exec

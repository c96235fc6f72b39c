// SPDX-License-Identifier: Apache-2.0
#include "exec/rank_threads.h"

namespace plimsoll::exec {

RankThreads::RankThreads(int ranks) {
  if (ranks == 1) return;
  try {
    for (int rank = 0; rank < ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
  } catch (...) {
    stop();  // the system has no threads left: end those that run first
    throw;
  }
}

RankThreads::~RankThreads() { stop(); }

void RankThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::on_all(const std::function<void(int)>& work, const std::function<void()>& on_failure) {
  if (threads_.empty()) {
    try {
      work(0);
    } catch (...) {
      if (on_failure) on_failure();  // other ranks may wait in other processes
      throw;
    }
    return;
  }
  std::unique_lock lock(mutex_);
  work_ = &work;
  on_failure_ = &on_failure;
  failure_ = nullptr;
  running_ = static_cast<int>(threads_.size());
  ++round_;
  started_.notify_all();
  done_.wait(lock, [this] { return running_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

void RankThreads::serve(int rank) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    started_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      (*work_)(rank);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    // Keep the first failure only: the other ranks' failures usually follow from it.
    if (failure && !failure_) {
      failure_ = failure;
      if (*on_failure_) (*on_failure_)();
    }
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace plimsoll::exec

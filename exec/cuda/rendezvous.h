// SPDX-License-Identifier: Apache-2.0
// A barrier on the host for the driver threads of a group's ranks.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "exec/communicator.h"

namespace plimsoll::exec::cuda {

class Rendezvous {
 public:
  explicit Rendezvous(int size) : size_(size) {}

  /// Returns when all ranks have arrived. The last one runs `work` before any rank leaves. Throws PeerFailed after
  /// abort(), and if `work` threw; the last rank gets the original exception.
  void meet(const std::function<void()>& work = {}) {
    std::unique_lock lock(mutex_);
    if (aborted_) fail();
    if (++arrived_ < size_) {
      const unsigned turn = turn_;
      all_here_.wait(lock, [&] { return turn_ != turn || aborted_; });
      // An unchanged turn means that abort() woke this rank, not the arrival of the last one.
      if (turn_ == turn) fail();
      return;
    }
    try {
      if (work) work();
    } catch (...) {
      aborted_ = true;
      all_here_.notify_all();
      throw;
    }
    arrived_ = 0;
    ++turn_;
    all_here_.notify_all();
  }

  /// Throws PeerFailed after abort().
  void check_alive() const {
    const std::lock_guard lock(mutex_);
    if (aborted_) fail();
  }

  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    all_here_.notify_all();
  }

 private:
  [[noreturn]] static void fail() { throw PeerFailed(); }

  mutable std::mutex mutex_;
  std::condition_variable all_here_;
  int size_, arrived_ = 0;
  unsigned turn_ = 0;
  bool aborted_ = false;
};

}  // namespace plimsoll::exec::cuda

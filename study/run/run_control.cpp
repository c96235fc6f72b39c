// SPDX-License-Identifier: Apache-2.0
#include "study/run/run_control.h"

#include <thread>

namespace plimsoll::study {
namespace {
constexpr auto kPoll = std::chrono::milliseconds(20);
}

void RunControl::take_commands() {
  if (!poll_) return;
  const std::unique_lock lock(polling_, std::try_to_lock);
  if (!lock) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_poll_ < kPoll) return;
  last_poll_ = now;
  poll_(*this);
}

void RunControl::look_in() {
  take_commands();
  if (cancelled()) stop_.request_stop();
}

void RunControl::check_in() {
  take_commands();
  // Polls, because a signal handler may not notify a waiting thread.
  while (paused_.load(std::memory_order_relaxed) && !cancelled()) {
    std::this_thread::sleep_for(kPoll);
    take_commands();
  }
  if (cancelled()) stop_.request_stop();
}

}  // namespace plimsoll::study

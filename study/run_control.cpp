// SPDX-License-Identifier: Apache-2.0
#include "study/run_control.h"

#include <chrono>
#include <thread>

namespace plimsoll::study {

void RunControl::check_in() {
  // Polled, because a signal handler may not notify a waiting thread.
  constexpr auto kPoll = std::chrono::milliseconds(20);
  while (paused_.load(std::memory_order_relaxed) && !cancelled()) std::this_thread::sleep_for(kPoll);
  if (cancelled()) stop_.request_stop();
}

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// Waits for another thread of this process, for some microseconds, on cores that other processes may use too. A waiter
// spins briefly, longer only if no other thread competes for its core, and then sleeps. It never yields, because a
// yield gives the core away for a whole time slice, 4 ms or more. A sleeper, in contrast, runs as soon as it is woken,
// because it has used less than its share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace plimsoll::exec {

/// One iteration of a spin loop.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// Returns whether this thread recently had to wait for a core because another thread used it.
[[nodiscard]] bool core_is_wanted();

/// Spins until ready() returns true. Returns false if that takes too long; the caller should then sleep.
template <class Ready>
[[nodiscard]] bool spin_briefly(const Ready& ready) {
  constexpr int kPauses = 128;  // about 3 us, the cost of the system calls to sleep and to wake
  for (int i = 0; i < kPauses; ++i) {
    if (ready()) return true;
    pause_briefly();
  }
  if (core_is_wanted()) return ready();
  // Waking an idle core takes tens of microseconds, but within a forward the next piece of work usually comes sooner.
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(60);
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < until);
  return ready();
}

/// Sleeps until wake(), unless `word` differs from `seen`. May return spuriously.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen);
/// Wakes up to `sleepers` threads that sleep on `word`.
void wake(const std::atomic<std::uint32_t>& word, int sleepers);

}  // namespace plimsoll::exec

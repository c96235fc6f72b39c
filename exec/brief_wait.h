// SPDX-License-Identifier: Apache-2.0
// Waiting for another thread of this process in the order of microseconds, on cores that may have other owners. Who
// waits spins for a moment, longer only while nobody else wants its core, and then sleeps; it never yields: among
// runnable threads a yield hands the core over for a whole time slice, four milliseconds and more, whereas a sleeper
// that is woken comes back at once, because it has used less than its share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace plimsoll::exec {

/// One turn of a loop that waits.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// Whether this thread has lately had to wait for a core while another one computed on it.
[[nodiscard]] bool core_is_wanted();

/// True once ready() is; false if it was not for a while: then sleep.
template <class Ready>
[[nodiscard]] bool spin_briefly(const Ready& ready) {
  constexpr int kPauses = 128;  // some 3 us: a system call to sleep and another one to wake cost as much
  for (int i = 0; i < kPauses; ++i) {
    if (ready()) return true;
    pause_briefly();
  }
  if (core_is_wanted()) return ready();
  // Waking an idle core takes tens of microseconds, and in a forward the next piece of work comes sooner.
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(60);
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < until);
  return ready();
}

/// Sleeps until wake() unless `word` has another value than `seen` by then; may return for no reason.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen);
/// Wakes up to `sleepers` of those that sleep on the word.
void wake(const std::atomic<std::uint32_t>& word, int sleepers);

}  // namespace plimsoll::exec

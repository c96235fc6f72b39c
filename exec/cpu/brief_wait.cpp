// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/brief_wait.h"

#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plimsoll::exec {

namespace {

using Clock = std::chrono::steady_clock;

// A few time slices: a neighbour that computes shows itself in every one of them.
constexpr auto kMemory = std::chrono::milliseconds(20);

struct Displacements {
  long seen = -1;                      // involuntary switches of this thread; -1: never asked
  Clock::time_point wanted_until;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "the kernel looks at the word itself");

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

bool core_is_wanted() {
  thread_local Displacements mine;
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return true;
  const auto now = Clock::now();
  if (mine.seen >= 0 && usage.ru_nivcsw != mine.seen) mine.wanted_until = now + kMemory;
  mine.seen = usage.ru_nivcsw;
  return now < mine.wanted_until;
}

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  static_cast<void>(futex(word, FUTEX_WAIT, seen));   // a changed word, a signal: the caller looks again
}

void wake(const std::atomic<std::uint32_t>& word, int sleepers) {
  static_cast<void>(futex(word, FUTEX_WAKE, static_cast<std::uint32_t>(sleepers)));
}

}  // namespace plimsoll::exec

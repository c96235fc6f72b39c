// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/brief_wait.h"

#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

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

// linux/sched/types.h; the C library has neither the structure nor the calls.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes), policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};

// Asks for the same share of a core in shorter slices. From 6.12 on Linux lets who has been woken have its core back at once
// if its slices are shorter than those of the one that is running; else that one runs until the next tick, up to 4 ms.
// Earlier kernels ignore it, and a refusal is no harm.
void ask_for_short_slices() {
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
  constexpr std::uint64_t kSlice = 100'000;   // ns, the least that is granted
  constexpr std::uint32_t kOther = 0, kBatch = 3;
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != kOther && attributes.policy != kBatch) return;
  attributes.size = sizeof attributes;
  attributes.runtime = kSlice;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
#endif
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
  thread_local bool asked = false;
  if (!std::exchange(asked, true)) ask_for_short_slices();
  static_cast<void>(futex(word, FUTEX_WAIT, seen));   // a changed word, a signal: the caller looks again
}

void wake(const std::atomic<std::uint32_t>& word, int sleepers) {
  static_cast<void>(futex(word, FUTEX_WAKE, static_cast<std::uint32_t>(sleepers)));
}

}  // namespace plimsoll::exec

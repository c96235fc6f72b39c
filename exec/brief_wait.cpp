// SPDX-License-Identifier: Apache-2.0
#include "exec/brief_wait.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace plimsoll::exec {

namespace {

using Clock = std::chrono::steady_clock;

// A neighbour that computes delays this thread once in a few time slices; a kernel thread delays it by about 20 us.
constexpr auto kMemory = std::chrono::milliseconds(20), kBetweenLooks = std::chrono::milliseconds(1);
constexpr long long kLongDelay = 200'000;  // ns

// Measures how long this thread has been ready to run but without a core: the second number in the kernel's schedstat.
class RunDelay {
 public:
  RunDelay() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~RunDelay() {
    if (file_ >= 0) close(file_);
  }
  RunDelay(const RunDelay&) = delete;
  RunDelay& operator=(const RunDelay&) = delete;

  /// Returns nanoseconds; 0 if the kernel does not report them.
  [[nodiscard]] long long read() const {
    char text[64];
    const ssize_t size = file_ < 0 ? 0 : pread(file_, text, sizeof text - 1, 0);
    if (size <= 0) return 0;
    text[size] = 0;
    const char* const second = std::strchr(text, ' ');
    return second == nullptr ? 0 : std::strtoll(second, nullptr, 10);
  }

 private:
  int file_;
};

struct Displacement {
  RunDelay delay;
  long long seen = delay.read();
  Clock::time_point look_again, wanted_until;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
                  sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "futex needs a lock-free 32-bit word");

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

// As in linux/sched/types.h. The C library declares neither the structure nor the calls.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes), policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};

// Asks for the same share of a core in shorter slices. From 6.12 on, Linux lets a waking thread take its core back at
// once if its slices are shorter than those of the running thread. Otherwise that thread runs on until the next tick,
// up to 4 ms. Earlier kernels ignore the request, and a refusal does no harm.
void ask_for_short_slices() {
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
  constexpr std::uint64_t kSlice = 100'000;  // ns, the minimum
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
  thread_local Displacement mine;
  const auto now = Clock::now();
  if (now >= mine.look_again) {
    mine.look_again = now + kBetweenLooks;
    const long long delay = mine.delay.read();
    if (delay - mine.seen > kLongDelay) mine.wanted_until = now + kMemory;
    mine.seen = delay;
  }
  return now < mine.wanted_until;
}

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  thread_local bool asked = false;
  if (!std::exchange(asked, true)) ask_for_short_slices();
  static_cast<void>(futex(word, FUTEX_WAIT, seen));  // may return early: the caller checks again
}

void wake(const std::atomic<std::uint32_t>& word, int sleepers) {
  static_cast<void>(futex(word, FUTEX_WAKE, static_cast<std::uint32_t>(sleepers)));
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/thread_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "exec/brief_wait.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {
constexpr std::uint64_t kUnits = 0xffff'ffff;  // the half of a part's word that counts units
}  // namespace

ThreadPool::ThreadPool(int threads) {
  PLIMSOLL_CHECK(threads >= 1, "the caller is one of the threads");
  part_ = std::make_unique<Part[]>(static_cast<std::size_t>(threads));
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (...) {
    end_workers();  // the system has no threads left: end those that run first
    throw;
  }
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
  stop_ = true;
  ++round_;
  wake(round_, std::numeric_limits<int>::max());
  for (std::thread& worker : workers_) worker.join();
}

// ---- the caller's side --------------------------------------------------------------------------------------

void ThreadPool::run_erased(Piece piece, void* object, std::int64_t units, Claim claim) {
  PLIMSOLL_CHECK(units <= std::numeric_limits<std::int32_t>::max(), "the number of units fits in 32 bits");
  publish(piece, object, units, claim);
  take_all(0);
  wait_for_claimed();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// How sleeping and waking synchronise: a worker counts itself as a sleeper and then reads the round again. The driver
// raises the round and then reads the number of sleepers. Both use one total order, so at least one sees the other's
// write.
void ThreadPool::publish(Piece piece, void* object, std::int64_t units, Claim claim) {
  const int parts = claim == Claim::one_of_all ? 1 : threads();
  piece_.store(piece, std::memory_order_relaxed);
  object_.store(object, std::memory_order_relaxed);
  units_.store(units, std::memory_order_relaxed);
  parts_.store(parts, std::memory_order_relaxed);
  halves_.store(claim == Claim::half_of_a_part, std::memory_order_relaxed);
  unfinished_.store(static_cast<std::uint32_t>(units), std::memory_order_relaxed);
  const std::uint64_t round = round_.load(std::memory_order_relaxed) + std::uint32_t{1};
  // Each thread begins with a part of its own, which stays in its cache from one operation to the next. A part's word
  // holds round and units together, so that a late thread cannot claim a unit of another round.
  for (int part = 0; part < parts; ++part) {
    const auto size = static_cast<std::uint64_t>(units * (part + 1) / parts - units * part / parts);
    part_[static_cast<std::size_t>(part)].left.store(round << 32U | size, std::memory_order_release);
  }
  round_.store(static_cast<std::uint32_t>(round));
  if (sleepers_.load() > 0) wake(round_, static_cast<int>(std::min<std::int64_t>(units - 1, threads() - 1)));
}

void ThreadPool::wait_for_claimed() {
  // Workers usually finish within microseconds, which is less than a sleep and a wake-up cost.
  if (spin_briefly([this] { return unfinished_.load(std::memory_order_acquire) == 0; })) return;
  driver_sleeps_.store(true);
  for (std::uint32_t left = unfinished_.load(); left != 0; left = unfinished_.load()) sleep_while(unfinished_, left);
  driver_sleeps_.store(false, std::memory_order_relaxed);
}

// ---- driver and workers ----------------------------------------------------------------------------------------

// Take units of the thread's own part first, then of the following parts.
void ThreadPool::take_all(int thread) {
  const int parts = parts_.load(std::memory_order_relaxed);
  for (int i = 0; i < parts; ++i) {
    const int part = (thread + i) % parts;
    while (take_from(part, thread)) {}
  }
}

bool ThreadPool::take_from(int part, int thread) {
  std::atomic<std::uint64_t>& word = part_[static_cast<std::size_t>(part)].left;
  std::uint64_t seen = word.load(std::memory_order_acquire);
  while ((seen & kUnits) != 0) {
    const Piece piece = piece_.load(std::memory_order_relaxed);
    void* const object = object_.load(std::memory_order_relaxed);
    const std::int64_t units = units_.load(std::memory_order_relaxed), parts = parts_.load(std::memory_order_relaxed);
    const bool halves = halves_.load(std::memory_order_relaxed);
    const auto left = static_cast<std::int64_t>(seen & kUnits), taken = halves ? (left + 1) / 2 : 1;
    // Success means that the part was not exhausted since `seen` was read, so the job read above is of this round.
    if (!word.compare_exchange_weak(seen, seen - static_cast<std::uint64_t>(taken), std::memory_order_acq_rel,
                                    std::memory_order_acquire))
      continue;
    // Units are claimed from the front: `left` counts those up to the end of the part.
    const std::int64_t begin = units * (part + 1) / parts - left;
    catching([&] { piece(object, thread, begin, begin + taken); });
    // Only the thread that completes the last unit wakes the driver.
    if (unfinished_.fetch_sub(static_cast<std::uint32_t>(taken)) == static_cast<std::uint32_t>(taken) &&
        driver_sleeps_.load())
      wake(unfinished_, 1);
    return true;
  }
  return false;
}

template <class Work>
void ThreadPool::catching(const Work& work) {
  try {
    work();
  } catch (...) {
    const std::lock_guard lock(failing_);
    // The round continues; the driver rethrows the first exception at its end.
    if (!failure_) failure_ = std::current_exception();
  }
}

// ---- the workers' side --------------------------------------------------------------------------------------

void ThreadPool::work(int thread) {
  std::uint32_t seen = 0;
  while (true) {
    const auto called = [&] { return round_.load(std::memory_order_acquire) != seen; };
    if (!spin_briefly(called)) {
      ++sleepers_;
      while (round_.load() == seen) sleep_while(round_, seen);
      --sleepers_;
    }
    seen = round_.load(std::memory_order_acquire);
    if (stop_) return;
    take_all(thread);
  }
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// The threads of one rank. A step of a small model is about eighty pieces of work of a few microseconds each, and the
// cores may be shared with other ranks, clients and processes. No thread therefore blocks on one that has not started.
// Work is cut into units that threads claim; the caller claims the units that the others leave, and waits only for
// units already claimed.
//
// Each thread owns a contiguous part of the units and takes half of the rest of it at a time. A thread without units
// takes half of the rest of another thread's part. Undisturbed, each thread reads its own stretch of memory, the same
// in every step.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace plimsoll::exec {

/// A fixed team of threads that includes the caller. One driver thread at a time. Pools are independent of each other.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(thread, begin, end) over pieces of [0, count) that begin at multiples of `grain`. `thread` is in [0,
  /// threads()), and concurrent calls have different values. Returns when all pieces are done. If calls throw, rethrows
  /// one of the exceptions.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    const std::int64_t units = (count + grain - 1) / grain;
    if (threads() == 1 || units <= 1) {
      if (count > 0) body(0, std::int64_t{0}, count);
      return;
    }
    auto piece = [&](int thread, std::int64_t begin, std::int64_t end) {
      body(thread, begin * grain, end * grain < count ? end * grain : count);
    };
    run(units, Claim::half_of_a_part, piece);
  }
  template <class Body>
  void parallel_for(std::int64_t count, Body&& body) {
    parallel_for(count, 1, body);
  }

  /// Calls body(thread, item) for every item of [0, count). Free threads take the items in rising order, which suits
  /// items of unequal cost.
  template <class Body>
  void for_each(std::int64_t count, Body&& body) {
    auto piece = [&](int thread, std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) body(thread, item);
    };
    if (threads() == 1 || count <= 1)
      piece(0, 0, count);
    else
      run(count, Claim::one_of_all, piece);
  }

 private:
  using Piece = void (*)(void* object, int thread, std::int64_t begin, std::int64_t end);
  enum class Claim : std::uint8_t { half_of_a_part, one_of_all };

  template <class Body>
  void run(std::int64_t units, Claim claim, Body& body) {
    run_erased([](void* object, int thread, std::int64_t begin,
                  std::int64_t end) { (*static_cast<Body*>(object))(thread, begin, end); },
               &body, units, claim);
  }
  void run_erased(Piece piece, void* object, std::int64_t units, Claim claim);
  void publish(Piece piece, void* object, std::int64_t units, Claim claim);
  void take_all(int thread);
  bool take_from(int part, int thread);
  template <class Work>
  void catching(const Work& work);
  void wait_for_claimed();
  void work(int thread);
  void end_workers();

  // The units left in a part: the round in the upper half, the number of units in the lower. A claim made with the job
  // of an older round fails, because the word has changed.
  struct alignas(64) Part {
    std::atomic<std::uint64_t> left{0};
  };

  // The job of the round. Written only while no unit of the last round is left, so a claim that succeeds has read the
  // right job.
  std::atomic<Piece> piece_{nullptr};
  std::atomic<void*> object_{nullptr};
  std::atomic<std::int64_t> units_{0};
  std::atomic<int> parts_{1};
  std::atomic<bool> halves_{true};
  std::unique_ptr<Part[]> part_;

  alignas(64) std::atomic<std::uint32_t> round_{0};  // workers sleep on it
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint32_t> unfinished_{
      0};  // units of this round that are not done; the driver sleeps on it
  std::atomic<bool> driver_sleeps_{false};
  alignas(64) std::atomic<int> sleepers_{0};  // workers that sleep or are about to sleep
  std::mutex failing_;
  std::exception_ptr failure_;  // guarded by failing_
  std::vector<std::thread> workers_;
};

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// The threads of one rank. Work goes out in microseconds, as a step of a small model is some eighty pieces of work; but
// the cores may have other owners: ranks, clients, neighbours. So nobody waits for a thread that has not come: work is
// cut into units that are claimed, the caller claims what the others leave, and waits only for units that somebody is
// at.
//
// Every thread has a part of the units, one behind the other, and takes half of what is left of it at a time; who has
// nothing left takes half of what is left of another's. Undisturbed, each reads its own stretch of memory, the same in
// every step.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace plimsoll::exec {

/// A fixed team of threads, the caller among them. One driver thread at a time; pools know nothing of each other.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// body(thread, begin, end) over pieces of [0, count) that begin at multiples of `grain`, thread in [0, threads()):
  /// no two at once have the same thread. Returns when all are done. Rethrows what one of them threw.
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

  /// body(thread, item) for every item of [0, count), each taken by whoever is free, in rising order: for items of
  /// unequal cost.
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
  void call(Piece piece, void* object, int thread, std::int64_t begin, std::int64_t end);
  void wait_for_claimed();
  void work(int thread);
  void end_workers();

  // What is left of a part: the round in the upper half, units in the lower. A claim that read the job of another round
  // than the word's fails, because the word has moved on.
  struct alignas(64) Part {
    std::atomic<std::uint64_t> left{0};
  };

  // The job of the round. Written while no unit of the last one is left, so a claim that succeeds has read its own.
  std::atomic<Piece> piece_{nullptr};
  std::atomic<void*> object_{nullptr};
  std::atomic<std::int64_t> units_{0};
  std::atomic<int> parts_{1};
  std::atomic<bool> halves_{true};
  std::unique_ptr<Part[]> part_;

  alignas(64) std::atomic<std::uint32_t> round_{0};  // workers sleep on it
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint32_t> unfinished_{
      0};  // units of the round that are not done; the driver sleeps on it
  std::atomic<bool> driver_sleeps_{false};
  alignas(64) std::atomic<int> sleepers_{0};  // workers that sleep or are about to
  std::mutex failing_;
  std::exception_ptr failure_;  // guarded by failing_
  std::vector<std::thread> workers_;
};

}  // namespace plimsoll::exec

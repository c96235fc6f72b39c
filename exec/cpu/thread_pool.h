// SPDX-License-Identifier: Apache-2.0
// The threads of one rank. Work goes out in microseconds, as a step of a small model is some eighty pieces of work; but
// who waits longer than that sleeps, because the cores may have other owners: ranks, clients, neighbours.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
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

  /// body(thread) on every thread, thread in [0, threads()); returns when all are done. Rethrows what one of them threw.
  template <class Body>
  void run(Body&& body) {
    run_erased([](void* object, int thread) { (*static_cast<std::remove_reference_t<Body>*>(object))(thread); }, &body);
  }

  /// body(thread, begin, end): [0, count) in one contiguous part a thread; threads without a part are not called.
  template <class Body>
  void parallel_for(std::int64_t count, Body&& body) {
    if (threads() == 1 || count <= 1) {
      if (count > 0) body(0, std::int64_t{0}, count);
      return;
    }
    const std::int64_t team = threads();
    run([&](int thread) {
      const std::int64_t begin = count * thread / team, end = count * (thread + 1) / team;
      if (begin < end) body(thread, begin, end);
    });
  }

  /// body(thread, item) for every item of [0, count), each taken by whoever is free: for items of unequal cost.
  template <class Body>
  void for_each(std::int64_t count, Body&& body) {
    if (threads() == 1 || count <= 1) {
      for (std::int64_t item = 0; item < count; ++item) body(0, item);
      return;
    }
    std::atomic<std::int64_t> next{0};
    run([&](int thread) {
      for (std::int64_t item = next++; item < count; item = next++) body(thread, item);
    });
  }

 private:
  using Erased = void (*)(void* object, int thread);
  void run_erased(Erased body, void* object);
  void call(int thread);
  void work(int thread);
  void end_workers();

  // Written by the driver before `generation_` is raised.
  Erased body_ = nullptr;
  void* object_ = nullptr;
  bool stop_ = false;

  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<std::int32_t> busy_{0};       // workers that have not finished this generation
  alignas(64) std::atomic<std::int32_t> sleepers_{0};   // workers that wait on start_
  std::atomic<bool> driver_sleeps_{false};
  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::exception_ptr failure_;                          // guarded by mutex_
  std::vector<std::thread> workers_;
};

}  // namespace plimsoll::exec

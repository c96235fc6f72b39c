// SPDX-License-Identifier: Apache-2.0
// One driver thread a rank: tensor-parallel ranks do the same things at the same time and meet inside a communicator.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace plimsoll::exec {

class RankThreads {
 public:
  /// With one rank there is no thread: work runs on the caller's.
  explicit RankThreads(int ranks);
  ~RankThreads();

  /// Runs work(rank) on every rank's thread and returns when all have. When ranks throw, `on_failure` is called once,
  /// at once, so that it can wake the others, and the first exception is thrown here.
  void on_all(const std::function<void(int rank)>& work, const std::function<void()>& on_failure = {});

 private:
  void serve(int rank);
  void stop();

  std::mutex mutex_;
  std::condition_variable started_, done_;
  const std::function<void(int)>* work_ = nullptr;
  const std::function<void()>* on_failure_ = nullptr;
  std::uint64_t round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll::exec

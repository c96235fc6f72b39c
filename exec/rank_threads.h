// SPDX-License-Identifier: Apache-2.0
// One driver thread per rank. Tensor-parallel ranks run the same operations at the same time and synchronise in a
// communicator.
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
  /// With one rank there is no thread; work then runs on the caller's thread.
  explicit RankThreads(int ranks);
  ~RankThreads();

  /// Runs work(rank) on every rank's thread and blocks until all have returned. If a rank throws, `on_failure` is
  /// called once, immediately, so that it can wake the others; the first exception is rethrown here.
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

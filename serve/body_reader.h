// SPDX-License-Identifier: Apache-2.0
// Reads long request bodies on a thread of its own, so that a long prompt holds up no stream.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

#include "serve/api_request.h"

namespace plimsoll::serve {

class BodyReader {
 public:
  using Result = std::variant<ApiRequest, ApiError>;
  /// Called on the reader's thread.
  using Done = std::function<void(Result&& result)>;
  /// Bodies up to this size are read at once by the caller.
  static constexpr std::size_t kShort = std::size_t{64} << 10U;

  explicit BodyReader(const PromptRules& rules);
  /// Bodies that wait are not read any more.
  ~BodyReader();
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;

  /// False, and nothing happens, if too much waits already.
  [[nodiscard]] bool read(Api api, std::string body, Done done);

 private:
  struct Job {
    Api api;
    std::string body;
    Done done;
  };
  void run();

  PromptRules rules_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Job> jobs_;   // under mutex_, as what follows
  std::size_t bytes_ = 0;  // of the bodies that wait
  bool ends_ = false;
  std::thread thread_;  // the last member: it sees the others
};

}  // namespace plimsoll::serve

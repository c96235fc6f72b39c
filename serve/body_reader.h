// SPDX-License-Identifier: Apache-2.0
// Parses long request bodies on its own thread, so that a long prompt delays no stream.
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
  /// Called on the thread of the reader.
  using Done = std::function<void(Result&& result)>;
  /// The caller parses bodies up to this size itself.
  static constexpr std::size_t kShort = std::size_t{64} << 10U;

  explicit BodyReader(const PromptRules& rules);
  /// Drops bodies that still wait.
  ~BodyReader();
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;

  /// Queues a body. Returns false, and does nothing, if too many bytes wait already.
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
  std::deque<Job> jobs_;   // guarded by mutex_, as are the next two members
  std::size_t bytes_ = 0;  // total size of the waiting bodies
  bool ends_ = false;
  std::thread thread_;  // last, so that it starts after the other members exist
};

}  // namespace plimsoll::serve

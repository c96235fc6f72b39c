// SPDX-License-Identifier: Apache-2.0
// Where the leader finds what a follower answers, and learns at once that it failed or died: a thread of its own reads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "exec/group/wire.h"
#include "net/link.h"

namespace plimsoll::exec::group {

/// What became of a process, as far as one connection tells.
struct Fate {
  bool ended = false;                  // nothing comes any more
  bool peer_failed = false;            // it said that it ends because another one failed
  bool bad_input = false;              // what it said is an InputError's
  bool silent = false;                 // it was given up: it has not said for too long that it is alive
  std::optional<std::string> failure;  // what it said of itself
};

/// Of one connection, whose link outlives it.
class Inbox {
 public:
  /// silence: after so long without a message, a sign of life included, the follower counts as failed. Throws
  /// system_error where the system has no more threads.
  explicit Inbox(const net::Link& link, std::optional<std::chrono::milliseconds> silence = {});
  /// Ends the connection.
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Blocks for the next answer, which is to be of `kind`. Throws PeerFailed when the follower has failed or died, and
  /// DeviceError for an answer of another kind. One thread.
  [[nodiscard]] net::Bytes take(Kind kind);
  /// Calls `on_failure` when the follower fails or dies, at once if it has; an empty one takes it back and waits for a
  /// call that is in progress. Any thread.
  void watch(std::function<void()> on_failure);
  /// Any thread.
  [[nodiscard]] Fate fate() const;

 private:
  void read();
  void fail();

  [[nodiscard]] net::Deadline patience() const { return silence_ ? net::within(*silence_) : net::kNever; }

  const net::Link& link_;
  std::optional<std::chrono::milliseconds> silence_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<net::Bytes> messages_;
  Fate fate_;
  std::mutex watching_;  // held during a call
  std::function<void()> on_failure_;
  std::thread thread_;
};

}  // namespace plimsoll::exec::group

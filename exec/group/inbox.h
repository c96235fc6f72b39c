// SPDX-License-Identifier: Apache-2.0
// Receives a follower's answers on its own thread, so that the leader learns immediately that a follower failed or
// died.
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

/// What a connection reveals about the state of its peer.
struct PeerFailure {
  bool ended = false;                  // the connection has ended
  bool peer_failed = false;            // the peer reported that it ends because another process failed
  bool bad_input = false;              // the peer reported an InputError
  bool silent = false;                 // the peer sent no heartbeat for too long and counts as failed
  std::optional<std::string> failure;  // the reason that the peer reported
};

/// Reads one connection. The link must outlive the inbox.
class Inbox {
 public:
  /// Starts the reading thread. If `silence` is given, a peer that sends nothing for that long, not even heartbeats,
  /// counts as failed. Throws system_error if the system has no threads left.
  explicit Inbox(const net::Link& link, std::optional<std::chrono::milliseconds> silence = {});
  /// Ends the connection and joins the thread.
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Blocks until the next answer arrives and returns it. Throws PeerFailed if the peer failed or died, and DeviceError
  /// if the answer is not of `kind`. One thread.
  [[nodiscard]] net::Bytes take(Kind kind);
  /// Calls `on_failure` when the peer fails or dies, immediately if that has already happened. An empty function
  /// removes the watch and waits for a call in progress. Any thread.
  void watch(std::function<void()> on_failure);
  /// Returns what is known about the peer so far. Any thread.
  [[nodiscard]] PeerFailure fate() const;

 private:
  void read();
  void fail();

  [[nodiscard]] net::Deadline patience() const { return silence_ ? net::within(*silence_) : net::kNever; }

  const net::Link& link_;
  std::optional<std::chrono::milliseconds> silence_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<net::Bytes> messages_;
  PeerFailure fate_;
  std::mutex watching_;  // held while on_failure runs
  std::function<void()> on_failure_;
  std::thread thread_;
};

}  // namespace plimsoll::exec::group

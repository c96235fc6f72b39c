// SPDX-License-Identifier: Apache-2.0
// An event loop: waits for sockets and timers, and calls their handlers. For one thread.
#pragma once

#include <functional>
#include <memory>

#include "net/socket.h"

namespace plimsoll::net {

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Handles events until the deadline, or until a handler calls stop(). Always handles those that are already ready.
  void run(Deadline until);
  /// Makes run() return after the handler in progress.
  void stop();
  /// Calls `then` once at `time`, or later if run() is not active at that time.
  void at(Deadline time, std::function<void()> then);

  struct Impl;  // net/event_loop_impl.h
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::net

// SPDX-License-Identifier: Apache-2.0
// Waits for sockets and times, and calls what waits for them. One thread.
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

  /// Handles what happens until `until`, or until a handler calls stop(). What is ready already is handled in any case.
  void run(Deadline until);
  /// run() returns once the handler in progress is done.
  void stop();
  /// Calls `then` once at `time`, within run().
  void at(Deadline time, std::function<void()> then);

  struct Impl;  // net/event_loop_impl.h
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::net

// SPDX-License-Identifier: Apache-2.0
// Messages between two processes of a tensor-parallel group over a stream socket, which closes when one of them dies.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace plimsoll::exec::group {

using Bytes = std::vector<std::byte>;

/// Owns a connected stream socket. One thread sends, one receives, any may shut(). What goes wrong is as if the other side
/// were gone. A message is a length of four bytes in the machine's order and its bytes.
class Link {
 public:
  Link() = default;
  explicit Link(int fd) : fd_(fd) {}
  Link(Link&& other) noexcept;
  Link& operator=(Link&& other) noexcept;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }

  /// Up to here a message may be long.
  static constexpr std::size_t kLongest = std::size_t{1} << 30U;

  /// Blocks until the message, of up to kLongest bytes, is on its way. False where the other side is gone.
  bool send(std::span<const std::byte> message) const;
  /// Blocks for the next message; nullopt where the other side is gone, or says that one of more than kLongest comes. Throws
  /// bad_alloc.
  [[nodiscard]] std::optional<Bytes> receive() const;
  /// Whether something is there to receive, an end included; false after `patience`.
  [[nodiscard]] bool wait(std::chrono::milliseconds patience) const;
  /// Wakes whoever waits here or at the other end, as if the other side were gone.
  void shut() const;

 private:
  int fd_ = -1;
};

/// Two ends of one connection inside this process: for tests. Throws DeviceError.
[[nodiscard]] std::pair<Link, Link> make_link_pair();

/// Calls `on_end` once, on a thread of its own, when the other side of a link is gone; never after it was destroyed. Takes
/// nothing from the link, which outlives it.
class EndWatch {
 public:
  /// Throws DeviceError where the system has no more file descriptors, system_error where it has no more threads.
  EndWatch(const Link& link, std::function<void()> on_end);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

 private:
  Link stop_;                          // an eventfd, which it only closes
  std::thread thread_;
};

}  // namespace plimsoll::exec::group

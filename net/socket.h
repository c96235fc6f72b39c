// SPDX-License-Identifier: Apache-2.0
// A stream socket and the deadlines of what is done with it. The floor of net/: link.h frames messages, endpoint.h
// listens and connects, lobby.h lets in the peers that know a token.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

namespace plimsoll::net {

/// A point in time by which an operation ends, whatever the other side does meanwhile.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();
[[nodiscard]] inline Deadline within(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

/// Milliseconds until `until` for poll(2): rounded up, 0 in the past, -1 for kNever.
[[nodiscard]] int poll_time(Deadline until);

/// Owns the file descriptor of a stream socket in blocking mode. One thread sends, one receives, any may shut().
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }

  /// Sends all parts, one behind the other. False if the other side is gone or the deadline passes first; the stream is
  /// then of no further use.
  [[nodiscard]] bool send(std::span<const std::span<const std::byte>> parts, Deadline until = kNever) const;
  /// Whether something can be received, the end of the stream included; false if nothing comes by the deadline.
  [[nodiscard]] bool wait(Deadline until) const;
  /// Whether the other side has closed or shut the connection. Takes nothing from the stream.
  [[nodiscard]] bool is_peer_gone() const;
  /// Ends the connection in both directions: calls that wait on either side return as if the other side were gone.
  void shut() const;
  /// Says that nothing more will be sent; what the other side sends can still be received.
  void shut_sending() const;

 private:
  int fd_ = -1;
};

/// Two connected sockets inside this process. Throws DeviceError.
[[nodiscard]] std::pair<Socket, Socket> make_socket_pair();

}  // namespace plimsoll::net

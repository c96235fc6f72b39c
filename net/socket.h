// SPDX-License-Identifier: Apache-2.0
// A stream socket with deadlines. It is the lowest layer of net/: link.h frames messages, endpoint.h listens and
// connects, lobby.h accepts the peers that know a token.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

namespace plimsoll::net {

/// The time by which an operation must end, whatever the peer does.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();
[[nodiscard]] inline Deadline within(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

/// Returns the milliseconds until `until` for poll(2): rounded up, 0 in the past, -1 for kNever.
[[nodiscard]] int poll_time(Deadline until);

/// Owns the file descriptor of a stream socket in blocking mode. One thread may send and one may receive; any thread
/// may call shut().
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

  /// Sends all parts in order. Returns false if the peer is gone or the deadline passes first; the stream is then
  /// unusable.
  [[nodiscard]] bool send(std::span<const std::span<const std::byte>> parts, Deadline until = kNever) const;
  /// Waits until there is something to receive, which includes the end of the stream. Returns false if nothing arrives
  /// by the deadline.
  [[nodiscard]] bool wait(Deadline until) const;
  /// Returns true if the peer has closed or shut the connection. Reads nothing from the stream.
  [[nodiscard]] bool is_peer_gone() const;
  /// Closes the connection in both directions. Calls waiting on either side return as if the peer had gone.
  void shut() const;
  /// Closes the sending direction only. Data from the peer can still be received.
  void shut_sending() const;

 private:
  int fd_ = -1;
};

/// Returns two connected sockets inside this process. Throws DeviceError.
[[nodiscard]] std::pair<Socket, Socket> make_socket_pair();

}  // namespace plimsoll::net

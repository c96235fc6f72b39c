// SPDX-License-Identifier: Apache-2.0
// Messages over a stream socket. A message is its length, four bytes in network order, and then its bytes. The receiver
// says how long a message it accepts: one peer may send a gigabyte of logits, an unknown one a few kilobytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/socket.h"

namespace plimsoll::net {

using Bytes = std::vector<std::byte>;

/// Reads one message as its bytes arrive. Memory grows with what has arrived, not with the length that is announced.
class MessageReader {
 public:
  /// A message of more than `longest` bytes ends the stream.
  explicit MessageReader(std::size_t longest) : longest_(longest) {}

  enum class State {
    partial,   // more bytes must come
    complete,  // take() has the message
    ended      // the other side is gone, or announces a message that is too long
  };
  /// Receives what is there and, if `may_wait`, waits for the rest. Throws bad_alloc.
  State advance(const Socket& socket, bool may_wait);
  /// The message; the reader is then ready for the next one.
  [[nodiscard]] Bytes take();

 private:
  static constexpr std::size_t kHead = sizeof(std::uint32_t);
  [[nodiscard]] std::span<std::byte> missing();
  [[nodiscard]] bool accepts_head();

  std::size_t longest_, size_ = 0, filled_ = 0;
  bool has_size_ = false;
  Bytes bytes_ = Bytes(kHead);  // the length, then the message
};

/// A connection that carries messages. One thread sends, one receives, any may shut(). Every failure is reported as if
/// the other side were gone.
class Link {
 public:
  /// No message is longer.
  static constexpr std::size_t kLongest = std::size_t{1} << 30U;

  Link() = default;
  explicit Link(Socket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] const Socket& socket() const { return socket_; }

  /// Blocks until the message, of up to kLongest bytes, is on its way. False if the other side is gone or the deadline
  /// passes first; the link is then of no further use.
  bool send(std::span<const std::byte> message, Deadline until = kNever) const;
  bool send(std::string_view message, Deadline until = kNever) const;
  /// Blocks for the next message. nullopt if the other side is gone, announces a longer message, or has not sent all of
  /// it by the deadline; the link is then of no further use. Throws bad_alloc.
  [[nodiscard]] std::optional<Bytes> receive(std::size_t longest = kLongest, Deadline until = kNever) const;
  [[nodiscard]] std::optional<std::string> receive_text(std::size_t longest, Deadline until = kNever) const;
  /// As the socket's.
  [[nodiscard]] bool wait(Deadline until) const { return socket_.wait(until); }
  void shut() const { socket_.shut(); }

 private:
  Socket socket_;
};

/// Two ends of one connection inside this process. Throws DeviceError.
[[nodiscard]] std::pair<Link, Link> make_link_pair();

/// The text of a message.
[[nodiscard]] std::string text_of(std::span<const std::byte> message);

/// Calls `on_end` once, on a thread of its own, when the other side of a link is gone; never after the watch is
/// destroyed. Takes nothing from the link, which must outlive it.
class EndWatch {
 public:
  /// Throws DeviceError if the system has no more file descriptors, system_error if it has no more threads.
  EndWatch(const Link& link, std::function<void()> on_end);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

 private:
  Socket stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace plimsoll::net

// SPDX-License-Identifier: Apache-2.0
// Messages over a stream socket. A message is its length (four bytes in network order) followed by its bytes. The
// receiver sets the longest message it accepts: a known peer may send a gigabyte of logits, an unknown one a few
// kilobytes.
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

/// Reads one message as its bytes arrive. It allocates memory for bytes that have arrived, not for the announced
/// length.
class MessageReader {
 public:
  /// A message longer than `longest` bytes ends the stream.
  explicit MessageReader(std::size_t longest) : longest_(longest) {}

  enum class State {
    partial,   // more bytes are expected
    complete,  // take() returns the message
    ended      // the peer is gone, or announced a message longer than `longest`
  };
  /// Receives the bytes that are available and, if `may_wait`, waits for the rest. Throws bad_alloc.
  State advance(const Socket& socket, bool may_wait);
  /// Returns the message and prepares for the next one.
  [[nodiscard]] Bytes take();

 private:
  static constexpr std::size_t kHead = sizeof(std::uint32_t);
  [[nodiscard]] std::span<std::byte> missing();
  [[nodiscard]] bool accepts_head();

  std::size_t longest_, size_ = 0, filled_ = 0;
  bool has_size_ = false;
  Bytes bytes_ = Bytes(kHead);  // the length, then the message
};

/// A connection that carries messages. One thread may send and one may receive; any thread may call shut(). Every
/// failure is reported as if the peer had gone.
class Link {
 public:
  /// The longest message that can be sent, in bytes.
  static constexpr std::size_t kMaxLength = std::size_t{1} << 30U;

  Link() = default;
  explicit Link(Socket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] const Socket& socket() const { return socket_; }

  /// Blocks until the message is sent. Returns false if the peer is gone or the deadline passes first; the link is then
  /// unusable. The message must not exceed kMaxLength.
  bool send(std::span<const std::byte> message, Deadline until = kNever) const;
  bool send(std::string_view message, Deadline until = kNever) const;
  /// Blocks until the next message arrives and returns it. Returns nullopt if the peer is gone, announces a longer
  /// message, or has not sent all of it by the deadline; the link is then unusable. Throws bad_alloc.
  [[nodiscard]] std::optional<Bytes> receive(std::size_t longest = kMaxLength, Deadline until = kNever) const;
  [[nodiscard]] std::optional<std::string> receive_text(std::size_t longest, Deadline until = kNever) const;
  /// Waits as Socket::wait does.
  [[nodiscard]] bool wait(Deadline until) const { return socket_.wait(until); }
  void shut() const { socket_.shut(); }

 private:
  Socket socket_;
};

/// Returns the two ends of a connection inside this process. Throws DeviceError.
[[nodiscard]] std::pair<Link, Link> make_link_pair();

/// Returns the text of a message.
[[nodiscard]] std::string text_of(std::span<const std::byte> message);

/// Calls `on_end` once, on a thread of its own, when the peer of a link is gone. Never calls it after the watch is
/// destroyed. Reads nothing from the link. The link must outlive the watch.
class EndWatch {
 public:
  /// Throws DeviceError if the system has no file descriptors left, system_error if it has no threads left.
  EndWatch(const Link& link, std::function<void()> on_end);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

 private:
  Socket stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace plimsoll::net

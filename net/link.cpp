// SPDX-License-Identifier: Apache-2.0
#include "net/link.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "model/error.h"

namespace plimsoll::net {

// ---- one message ------------------------------------------------------------------------------------------------

// Returns the memory for the next bytes: 1 MiB at first, then twice as much each time as bytes arrive.
std::span<std::byte> MessageReader::missing() {
  constexpr std::size_t kFirst = std::size_t{1} << 20U;
  if (has_size_ && filled_ == bytes_.size()) bytes_.resize(std::min(size_, std::max(kFirst, 2 * bytes_.size())));
  return std::span(bytes_).subspan(filled_);
}

// The size is checked before any memory is taken for it.
bool MessageReader::accepts_head() {
  std::uint32_t size = 0;
  std::memcpy(&size, bytes_.data(), sizeof size);
  size_ = ntohl(size);
  has_size_ = true;
  filled_ = 0;
  bytes_.clear();
  return size_ <= longest_;
}

MessageReader::State MessageReader::advance(const Socket& socket, bool may_wait) {
  while (!has_size_ || filled_ < size_) {
    const std::span<std::byte> to = missing();
    const ssize_t got = ::recv(socket.fd(), to.data(), to.size(), may_wait ? 0 : MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::partial;
    if (got <= 0) return State::ended;
    filled_ += static_cast<std::size_t>(got);
    if (!has_size_ && filled_ == kHead && !accepts_head()) return State::ended;
  }
  return State::complete;
}

Bytes MessageReader::take() {
  Bytes message = std::move(bytes_);
  *this = MessageReader(longest_);
  return message;
}

// ---- a connection -----------------------------------------------------------------------------------------------

bool Link::send(std::span<const std::byte> message, Deadline until) const {
  PLIMSOLL_CHECK(message.size() <= kMaxLength, "the message exceeds kMaxLength");
  const std::uint32_t size = htonl(static_cast<std::uint32_t>(message.size()));
  const std::array parts{std::as_bytes(std::span(&size, 1)), message};
  return socket_.send(parts, until);
}

bool Link::send(std::string_view message, Deadline until) const {
  return send(std::as_bytes(std::span(message)), until);
}

std::optional<Bytes> Link::receive(std::size_t longest, Deadline until) const {
  MessageReader reader(longest);
  while (true) {
    switch (reader.advance(socket_, until == kNever)) {
      case MessageReader::State::complete: return reader.take();
      case MessageReader::State::ended: return {};
      case MessageReader::State::partial: break;
    }
    // Check the clock for every piece, so that a peer that sends single bytes cannot extend the deadline.
    if (std::chrono::steady_clock::now() >= until || !wait(until)) return {};
  }
}

std::optional<std::string> Link::receive_text(std::size_t longest, Deadline until) const {
  const auto message = receive(longest, until);
  if (!message) return {};
  return text_of(*message);
}

std::string text_of(std::span<const std::byte> message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};  // NOLINT: bytes are characters
}

std::pair<Link, Link> make_link_pair() {
  auto [one, other] = make_socket_pair();
  return {Link(std::move(one)), Link(std::move(other))};
}

EndWatch::EndWatch(const Link& link, std::function<void()> on_end) : stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_.is_open()) throw DeviceError("the system has no more file descriptors");
  thread_ = std::thread([fd = link.fd(), stop = stop_.fd(), ended = std::move(on_end)] {
    std::array<pollfd, 2> events{{{fd, POLLRDHUP, 0}, {stop, POLLIN, 0}}};
    while (::poll(events.data(), events.size(), -1) < 0) {
      if (errno != EINTR) return ended();  // poll failed: report an end, so that no caller waits for ever
    }
    if (events[1].revents == 0) ended();
  });
}

EndWatch::~EndWatch() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.fd(), &one, sizeof one));
  thread_.join();
}

}  // namespace plimsoll::net

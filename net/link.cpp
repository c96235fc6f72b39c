// SPDX-License-Identifier: Apache-2.0
#include "net/link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "model/error.h"

namespace plimsoll::exec::group {

namespace {

bool receive_all(int fd, std::byte* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(fd, to, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

Link::Link(Link&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Link& Link::operator=(Link&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Link::~Link() {
  if (fd_ >= 0) ::close(fd_);
}

bool Link::send(std::span<const std::byte> message) const {
  PLIMSOLL_CHECK(message.size() <= kLongest, "who sends longer ones says so first");
  auto size = static_cast<std::uint32_t>(message.size());
  std::array<std::byte, sizeof size> head{};
  std::memcpy(head.data(), &size, sizeof size);
  std::array<iovec, 2> parts{{{head.data(), head.size()}, {const_cast<std::byte*>(message.data()), message.size()}}};  // NOLINT: sendmsg only reads
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  while (header.msg_iovlen > 0) {
    const ssize_t sent = ::sendmsg(fd_, &header, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    auto left = static_cast<std::size_t>(sent);
    while (header.msg_iovlen > 0 && left >= header.msg_iov->iov_len) {
      left -= header.msg_iov->iov_len;
      ++header.msg_iov;
      --header.msg_iovlen;
    }
    if (header.msg_iovlen == 0) break;
    header.msg_iov->iov_base = static_cast<std::byte*>(header.msg_iov->iov_base) + left;
    header.msg_iov->iov_len -= left;
  }
  return true;
}

std::optional<Bytes> Link::receive() const {
  std::array<std::byte, sizeof(std::uint32_t)> head{};
  if (!receive_all(fd_, head.data(), head.size())) return {};
  std::uint32_t size = 0;
  std::memcpy(&size, head.data(), sizeof size);
  if (size > kLongest) return {};
  Bytes message(size);
  if (!receive_all(fd_, message.data(), size)) return {};
  return message;
}

bool Link::wait(std::chrono::milliseconds patience) const {
  pollfd ready{fd_, POLLIN, 0};
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const int found = ::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (found >= 0 || errno != EINTR) return found != 0;   // what cannot be waited for is received at once, and says why
  }
}

void Link::shut() const {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

std::pair<Link, Link> make_link_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw DeviceError("the system has no more sockets");
  return {Link(ends[0]), Link(ends[1])};
}

EndWatch::EndWatch(const Link& link, std::function<void()> on_end) : stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_.is_open()) throw DeviceError("the system has no more file descriptors");
  thread_ = std::thread([fd = link.fd(), stop = stop_.fd(), ended = std::move(on_end)] {
    std::array<pollfd, 2> events{{{fd, POLLRDHUP, 0}, {stop, POLLIN, 0}}};
    while (::poll(events.data(), events.size(), -1) < 0) {
      if (errno != EINTR) return ended();   // who cannot watch must not wait
    }
    if (events[1].revents == 0) ended();
  });
}

EndWatch::~EndWatch() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.fd(), &one, sizeof one));
  thread_.join();
}

}  // namespace plimsoll::exec::group

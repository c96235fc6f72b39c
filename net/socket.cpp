// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "model/error.h"

namespace plimsoll::net {

int poll_time(Deadline until) {
  if (until == kNever) return -1;
  const Deadline now = std::chrono::steady_clock::now();
  if (until <= now) return 0;  // also for Deadline::min(), whose difference would overflow
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()));
}

namespace {

// Returns true when one of `events`, an error or a hang-up has occurred. The next call on the socket reports errors and
// hang-ups.
bool poll_one(int fd, short events, Deadline until) {
  pollfd ready{fd, events, 0};
  while (true) {
    const int found = ::poll(&ready, 1, poll_time(until));
    if (found >= 0 || errno != EINTR) return found != 0;
  }
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

// A send with a deadline never blocks in sendmsg(): it waits in poll(), which takes a time-out.
bool Socket::send(std::span<const std::span<const std::byte>> parts, Deadline until) const {
  constexpr std::size_t kMaxParts = 4;
  PLIMSOLL_CHECK(parts.size() <= kMaxParts, "a message has few parts");
  std::array<iovec, kMaxParts> vectors{};
  std::size_t first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i)
    vectors[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};  // NOLINT: sendmsg only reads
  const int flags = MSG_NOSIGNAL | (until == kNever ? 0 : MSG_DONTWAIT);
  while (true) {
    while (first < parts.size() && vectors[first].iov_len == 0) ++first;
    if (first == parts.size()) return true;
    msghdr message{};
    message.msg_iov = vectors.data() + first;
    message.msg_iovlen = parts.size() - first;
    const ssize_t sent = ::sendmsg(fd_, &message, flags);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && would_block() && poll_one(fd_, POLLOUT, until)) continue;
    if (sent < 0) return false;
    // The system may accept only a part. Skip that and send the rest.
    auto left = static_cast<std::size_t>(sent);
    for (std::size_t i = first; left > 0; ++i) {
      const std::size_t taken = std::min(left, vectors[i].iov_len);
      vectors[i].iov_base = static_cast<std::byte*>(vectors[i].iov_base) + taken;
      vectors[i].iov_len -= taken;
      left -= taken;
    }
  }
}

bool Socket::wait(Deadline until) const { return poll_one(fd_, POLLIN, until); }

// POLLRDHUP is also set when a peer has closed only its sending side.
bool Socket::is_peer_gone() const {
  pollfd ready{fd_, POLLRDHUP, 0};
  return ::poll(&ready, 1, 0) > 0;
}

void Socket::shut() const {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

void Socket::shut_sending() const {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_WR);
}

std::pair<Socket, Socket> make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw DeviceError("the system has no more sockets");
  }
  return {Socket(ends[0]), Socket(ends[1])};
}

}  // namespace plimsoll::net

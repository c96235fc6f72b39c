// SPDX-License-Identifier: Apache-2.0
#include "study/run/rank_frames.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "model/error.h"

namespace plimsoll::study {
namespace {

constexpr int kLookEvery = 100;                          // milliseconds
constexpr int kConnectWithin = 2000;
constexpr std::uint32_t kLongest = std::uint32_t{64} << 20U;
constexpr int kBacklog = 1024;

bool send_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, char* bytes, std::size_t size, const std::function<bool()>& give_up) {
  while (size > 0) {
    pollfd ready{fd, POLLIN, 0};
    const int count = ::poll(&ready, 1, give_up ? kLookEvery : -1);
    if (count < 0 && errno != EINTR) return false;
    if (count <= 0) {
      if (give_up && give_up()) return false;
      continue;
    }
    const ssize_t got = ::recv(fd, bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// Small questions and answers must not wait for more, and a host that vanished without a word is noticed within a minute.
void tune(int fd) {
  const int on = 1, idle = 15, every = 5, times = 6;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

bool connect_within(int fd, const sockaddr* address, socklen_t size) {
  const int flags = ::fcntl(fd, F_GETFL, 0);
  ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  if (::connect(fd, address, size) != 0) {
    if (errno != EINPROGRESS) return false;
    pollfd ready{fd, POLLOUT, 0};
    if (::poll(&ready, 1, kConnectWithin) != 1) return false;
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return false;
  }
  return ::fcntl(fd, F_SETFL, flags) == 0;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

int Socket::release() { return std::exchange(fd_, -1); }

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Socket listen_somewhere(bool this_host_only) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(this_host_only ? INADDR_LOOPBACK : INADDR_ANY);
  const bool ok = socket.is_open() && ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&  // NOLINT: the sockets' way
                  ::listen(socket.fd(), kBacklog) == 0;
  if (!ok) throw DeviceError(std::string("cannot listen for the other ranks: ") + std::strerror(errno));
  return socket;
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);  // NOLINT: the sockets' way
  return ntohs(address.sin_port);
}

std::string host_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  std::string text;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> name{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);  // NOLINT: the sockets' way
    if (ntohl(address->sin_addr.s_addr) >> 24U == 127) continue;
    if (::inet_ntop(AF_INET, &address->sin_addr, name.data(), name.size()) == nullptr) continue;
    text += (text.empty() ? "" : " ") + std::string(name.data());
  }
  return text;
}

Socket connect_to(const std::string& address, std::uint16_t port) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &target.sin_addr) != 1) return {};
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() || !connect_within(socket.fd(), reinterpret_cast<const sockaddr*>(&target), sizeof target)) return {};  // NOLINT
  tune(socket.fd());
  return socket;
}

Socket accept_within(const Socket& listening, int milliseconds) {
  pollfd ready{listening.fd(), POLLIN, 0};
  if (::poll(&ready, 1, milliseconds) != 1) return {};
  Socket socket(::accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.is_open()) tune(socket.fd());
  return socket;
}

bool send_text(const Socket& socket, std::string_view text) {
  const auto size = htonl(static_cast<std::uint32_t>(text.size()));
  std::array<char, sizeof size> head{};
  std::memcpy(head.data(), &size, sizeof size);
  return send_all(socket.fd(), head.data(), head.size()) && send_all(socket.fd(), text.data(), text.size());
}

std::optional<std::string> receive_text(const Socket& socket, const std::function<bool()>& give_up) {
  std::array<char, sizeof(std::uint32_t)> head{};
  if (!receive_all(socket.fd(), head.data(), head.size(), give_up)) return {};
  std::uint32_t size = 0;
  std::memcpy(&size, head.data(), sizeof size);
  size = ntohl(size);
  if (size > kLongest) return {};
  std::string text(size, '\0');
  if (!receive_all(socket.fd(), text.data(), text.size(), give_up)) return {};
  return text;
}

bool is_gone(const Socket& socket) {
  pollfd ready{socket.fd(), POLLIN | POLLRDHUP, 0};
  if (::poll(&ready, 1, 0) <= 0) return false;
  return (ready.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace plimsoll::study

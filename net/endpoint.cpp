// SPDX-License-Identifier: Apache-2.0
#include "net/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

#include "model/error.h"

namespace plimsoll::net {
namespace {

constexpr int kBacklog = 1024;

std::optional<sockaddr_in> read_address(std::string_view text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, std::string(text).c_str(), &address.sin_addr) != 1) return {};
  return address;
}

const sockaddr* plain(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);  // NOLINT: the type of the system calls
}

std::string numeric(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) == nullptr ? std::string() : text.data();
}

sockaddr_in own_end(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);  // NOLINT: the type of the system calls
  return address;
}

// Returns the bits of an address that name its network.
std::optional<std::uint32_t> network_of(std::string_view address, int prefix) {
  const auto read = read_address(address, 0);
  if (!read || prefix < 0 || prefix > 32) return {};
  return prefix == 0 ? 0 : ntohl(read->sin_addr.s_addr) >> (32 - prefix);
}

bool is_in_network(const Interface& own, std::string_view peer) {
  const auto here = network_of(own.address, own.prefix), there = network_of(peer, own.prefix);
  return here && there && *here == *there;
}

bool is_named(const Interface& own, std::string_view list) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (item == own.name || item == own.address) return true;
    const std::size_t slash = item.find('/');
    if (slash == std::string_view::npos) continue;
    Interface network{"", std::string(item.substr(0, slash)), -1};
    std::from_chars(item.data() + slash + 1, item.data() + item.size(), network.prefix);
    if (is_in_network(network, own.address)) return true;
  }
  return false;
}

// Sends small messages immediately (TCP_NODELAY), and detects within a minute that a host has vanished without closing
// the connection.
void tune(const Socket& socket) {
  const int on = 1, idle = 15, every = 5, times = 6;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

bool connect_by(int fd, const sockaddr_in& address, Deadline until) {
  const int flags = ::fcntl(fd, F_GETFL, 0);
  ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  if (::connect(fd, plain(address), sizeof address) != 0) {
    if (errno != EINPROGRESS) return false;
    pollfd ready{fd, POLLOUT, 0};
    int found = 0;
    do {
      found = ::poll(&ready, 1, poll_time(until));
    } while (found < 0 && errno == EINTR);
    if (found != 1) return false;
    // A writable socket only means that the attempt has ended. SO_ERROR holds the result.
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return false;
  }
  return ::fcntl(fd, F_SETFL, flags) == 0;
}

}  // namespace

// ---- addresses ---------------------------------------------------------------------------------------------------

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET || each->ifa_netmask == nullptr) continue;
    if ((each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);  // the family is AF_INET
    const auto* mask = reinterpret_cast<const sockaddr_in*>(each->ifa_netmask);  // NOLINT
    all.push_back({each->ifa_name, numeric(*address), std::popcount(mask->sin_addr.s_addr)});
  }
  return all;
}

std::vector<Interface> chosen_interfaces(std::vector<Interface> all, std::string_view list) {
  if (!list.empty()) std::erase_if(all, [list](const Interface& each) { return !is_named(each, list); });
  return all;
}

std::string source_address(const std::string& address) {
  const auto target = read_address(address, 9);  // the port does not matter: a datagram socket only looks up the route
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!target || !socket.is_open() || ::connect(socket.fd(), plain(*target), sizeof *target) != 0) return {};
  return numeric(own_end(socket));
}

std::vector<std::string> shared_addresses(const std::vector<Interface>& own,
                                          const std::vector<std::vector<std::string>>& peers,
                                          const std::function<std::string(const std::string&)>& route) {
  // ways[i]: the peers that can reach this host at the address own[i].
  std::vector<std::set<std::size_t>> ways(own.size());
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    const auto add = [&](bool routed) {
      bool any = false;
      for (const std::string& address : peers[peer]) {
        if (std::ranges::any_of(own, [&](const Interface& each) { return each.address == address; })) continue;
        const std::string source = routed ? route(address) : std::string();
        for (std::size_t i = 0; i < own.size(); ++i) {
          if (std::ranges::find(peers[peer], own[i].address) != peers[peer].end()) continue;
          if (routed ? own[i].address != source : !is_in_network(own[i], address)) continue;
          ways[i].insert(peer);
          any = true;
        }
      }
      return any;
    };
    // First try networks that both hosts are in, then the routing table. If neither way reaches a peer, there is no
    // solution.
    if (!add(false) && !add(true)) return {};
  }
  std::vector<std::string> chosen;
  std::set<std::size_t> reached;
  // Greedy set cover: each turn takes the address that reaches most of the remaining peers. Every peer can be reached
  // at some address, so each turn makes progress.
  while (reached.size() < peers.size()) {
    const auto gain = [&](std::size_t i) {
      return std::ranges::count_if(ways[i], [&](std::size_t peer) { return !reached.contains(peer); });
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < own.size(); ++i)
      if (gain(i) > gain(best)) best = i;
    chosen.push_back(own[best].address);
    reached.insert(ways[best].begin(), ways[best].end());
  }
  return chosen;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// ---- connections -------------------------------------------------------------------------------------------------

Socket listen_at(std::string_view address) {
  const auto here = read_address(address, 0);
  PLIMSOLL_CHECK(here, "the address is numeric");
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens =
      socket.is_open() && ::bind(socket.fd(), plain(*here), sizeof *here) == 0 && ::listen(socket.fd(), kBacklog) == 0;
  if (!listens) throw DeviceError("cannot listen at " + std::string(address) + ": " + std::strerror(errno));
  return socket;
}

std::uint16_t port_of(const Socket& listening) { return ntohs(own_end(listening).sin_port); }

Socket accept_from(const Socket& listening, Deadline until) {
  if (!listening.wait(until)) return {};
  Socket socket(::accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.is_open()) tune(socket);
  return socket;
}

Socket connect_to(const std::string& address, std::uint16_t port, Deadline until) {
  const auto target = read_address(address, port);
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!target || !socket.is_open() || !connect_by(socket.fd(), *target, until)) return {};
  tune(socket);
  return socket;
}

}  // namespace plimsoll::net

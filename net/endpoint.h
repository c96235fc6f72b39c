// SPDX-License-Identifier: Apache-2.0
// Listening and connecting over TCP and IPv4.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/socket.h"

namespace plimsoll::net {

inline constexpr std::string_view kLoopback = "127.0.0.1";

/// A numeric address of this host, and the number of leading bits that name its network.
struct Interface {
  std::string name, address;
  int prefix = 32;
};

/// Returns the IPv4 interfaces of this host that are up, without the loopback, in the system's order.
[[nodiscard]] std::vector<Interface> interfaces();
/// Returns the interfaces that `list` selects, in the syntax of OpenMPI's btl_tcp_if_include: "eth0,10.1.0.0/16". An
/// empty list selects all.
[[nodiscard]] std::vector<Interface> chosen_interfaces(std::vector<Interface> all, std::string_view list);
/// Returns the local address that packets to `address` would be sent from; empty if there is no route. Sends nothing.
[[nodiscard]] std::string source_address(const std::string& address);

/// Returns the fewest addresses of `own` through which every peer host can reach this host. peers[i] are the addresses
/// of another host. A peer reaches addresses in a network that both share; without one, it reaches the address that
/// `route` returns. Addresses that a peer has too, such as a bridge's, are ignored. Empty if some peer cannot reach
/// this host.
[[nodiscard]] std::vector<std::string> shared_addresses(
    const std::vector<Interface>& own, const std::vector<std::vector<std::string>>& peers,
    const std::function<std::string(const std::string& address)>& route = source_address);

/// Listens on a free port of a numeric address. Throws DeviceError if that fails.
[[nodiscard]] Socket listen_at(std::string_view address);
[[nodiscard]] std::uint16_t port_of(const Socket& listening);
/// Returns the next connection. If none arrives by the deadline, or the system has no room for it, the returned socket
/// is not open.
[[nodiscard]] Socket accept_from(const Socket& listening, Deadline until);
/// Connects to a peer. If it does not answer by the deadline, the returned socket is not open.
[[nodiscard]] Socket connect_to(const std::string& address, std::uint16_t port, Deadline until);

/// Returns the name of this host.
[[nodiscard]] std::string host_name();

}  // namespace plimsoll::net

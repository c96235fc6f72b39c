// SPDX-License-Identifier: Apache-2.0
// Where processes listen and how they are reached, over TCP and IPv4.
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

/// An address of this host, numeric, and how many leading bits of it name its network.
struct Interface {
  std::string name, address;
  int prefix = 32;
};

/// The IPv4 interfaces of this host that are up, without the loopback, in the system's order.
[[nodiscard]] std::vector<Interface> interfaces();
/// Those that a list as of OpenMPI's btl_tcp_if_include names: "eth0,10.1.0.0/16". All for an empty list.
[[nodiscard]] std::vector<Interface> chosen_interfaces(std::vector<Interface> all, std::string_view list);
/// The address of this host from which packets to `address` leave; empty if there is no route. Sends nothing.
[[nodiscard]] std::string source_address(const std::string& address);

/// The fewest addresses of `own` at which every peer host can reach this one: those in a network that the peer is in
/// too; for a peer in none of them, the address that `route` gives. An address that a peer has as well, such as a
/// bridge's, does not count. peers: the addresses of each other host. Empty if a peer cannot be reached at all.
[[nodiscard]] std::vector<std::string> shared_addresses(
    const std::vector<Interface>& own, const std::vector<std::vector<std::string>>& peers,
    const std::function<std::string(const std::string& address)>& route = source_address);

/// Listens at a free port of a numeric address. Throws DeviceError.
[[nodiscard]] Socket listen_at(std::string_view address);
[[nodiscard]] std::uint16_t port_of(const Socket& listening);
/// The next connection; not open if none comes by the deadline or the system has no room for it.
[[nodiscard]] Socket accept_from(const Socket& listening, Deadline until);
/// Not open if the peer does not answer by the deadline.
[[nodiscard]] Socket connect_to(const std::string& address, std::uint16_t port, Deadline until);

/// The name of this host.
[[nodiscard]] std::string host_name();

}  // namespace plimsoll::net

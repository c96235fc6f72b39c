// SPDX-License-Identifier: Apache-2.0
// The address of an HTTP server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::net {

struct Url {
  bool tls = false;         // https
  std::string host;         // a name or a numeric address, IPv6 without brackets
  std::uint16_t port = 80;  // 443 with tls, unless stated
  std::string path;         // begins with a slash and does not end with one; empty: none

  /// Whether packets to the host stay on this machine: localhost, 127.0.0.0/8, ::1.
  [[nodiscard]] bool is_loopback() const;
  /// Whether the host is a numeric address.
  [[nodiscard]] bool is_numeric() const;
  /// As a Host header has it: brackets around IPv6, the port unless it is the scheme's own.
  [[nodiscard]] std::string authority() const;
  /// "https://host:port/path"; the port unless it is the scheme's own.
  [[nodiscard]] std::string text() const;
  bool operator==(const Url&) const = default;
};

/// Reads http://HOST[:PORT][/PATH] or the same with https. `what` names the value in errors, such as "--endpoint".
/// Throws InputError for anything else: user information, which errors never repeat, a query or a fragment.
[[nodiscard]] Url parse_url(std::string_view text, std::string_view what);

}  // namespace plimsoll::net

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
  std::string path;         // empty, or begins with a slash and does not end with one

  /// Returns whether packets to the host stay on this machine: localhost, 127.0.0.0/8, ::1.
  [[nodiscard]] bool is_loopback() const;
  /// Returns whether the host is a numeric address.
  [[nodiscard]] bool is_numeric() const;
  /// Returns the value of a Host header: IPv6 in brackets, and the port unless it is the scheme's default.
  [[nodiscard]] std::string authority() const;
  /// Returns "https://host:port/path", without the port if it is the scheme's default.
  [[nodiscard]] std::string text() const;
  bool operator==(const Url&) const = default;
};

/// Parses http://HOST[:PORT][/PATH], or the same with https. `what` names the value in errors, such as "--endpoint".
/// Throws InputError for anything else: a query, a fragment, or user information, which errors never repeat.
[[nodiscard]] Url parse_url(std::string_view text, std::string_view what);

}  // namespace plimsoll::net

// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "model/error.h"

namespace plimsoll::net {
namespace {

constexpr std::uint16_t kHttp = 80, kHttps = 443;
constexpr std::size_t kLongest = 2048;

bool is_ipv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool is_ipv4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_name(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

std::uint16_t parse_port(std::string_view text, std::string_view what) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0)
    throw InputError(fmt::format("{}: found port '{}', allowed: 1 to 65535", what, text));
  return port;
}

// Reads the scheme and removes it from `rest`. Returns whether it is https.
bool parse_scheme(std::string_view& rest, std::string_view what) {
  for (const bool tls : {false, true}) {
    const std::string_view scheme = tls ? "https://" : "http://";
    if (!rest.starts_with(scheme)) continue;
    rest.remove_prefix(scheme.size());
    return tls;
  }
  throw InputError(fmt::format("{}: expected a URL that begins with http:// or https://", what));
}

void check_characters(std::string_view text, std::string_view what) {
  if (text.size() > kLongest) throw InputError(fmt::format("{}: the URL is longer than {} bytes", what, kLongest));
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c >= 0x7F || c == '\\'; }))
    throw InputError(fmt::format("{}: the URL has a character that is not allowed there", what));
}

}  // namespace

bool Url::is_numeric() const { return is_ipv4(host) || is_ipv6(host); }

bool Url::is_loopback() const {
  return host == "localhost" || host == "::1" || (is_ipv4(host) && host.starts_with("127."));
}

std::string Url::authority() const {
  const std::string name = is_ipv6(host) ? '[' + host + ']' : host;
  return port == (tls ? kHttps : kHttp) ? name : fmt::format("{}:{}", name, port);
}

std::string Url::text() const { return fmt::format("{}://{}{}", tls ? "https" : "http", authority(), path); }

Url parse_url(std::string_view text, std::string_view what) {
  std::string_view rest = text;
  Url url;
  url.tls = parse_scheme(rest, what);
  const std::size_t slash = std::min(rest.find_first_of("/?#"), rest.size());
  std::string_view authority = rest.substr(0, slash);
  if (authority.find('@') != std::string_view::npos)
    throw InputError(fmt::format("{}: the URL has user information; state a key with --api-key-env or --header", what));
  check_characters(text, what);
  std::string_view path = rest.substr(slash);
  if (path.find_first_of("?#") != std::string_view::npos)
    throw InputError(fmt::format("{}: the URL has a query or a fragment, allowed: scheme, host, port and path", what));
  while (path.ends_with('/')) path.remove_suffix(1);
  url.path = path;

  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    url.host = authority.substr(1, end == std::string_view::npos ? end : end - 1);
    if (end == std::string_view::npos || !is_ipv6(url.host))
      throw InputError(fmt::format("{}: expected an IPv6 address in brackets", what));
    port = authority.substr(end + 1);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, colon);
    if (!is_name(url.host))
      throw InputError(
          fmt::format("{}: found host '{}', expected a name or an address; IPv6 in brackets", what, url.host));
    port = authority.substr(colon);
  }
  if (!port.empty() && port.front() != ':') throw InputError(fmt::format("{}: expected a port after the host", what));
  url.port = port.empty() ? (url.tls ? kHttps : kHttp) : parse_port(port.substr(1), what);
  return url;
}

}  // namespace plimsoll::net

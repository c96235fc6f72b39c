// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <gtest/gtest.h>

#include "model/error.h"

namespace plimsoll::net {
namespace {

std::string message_of(std::string_view text) {
  try {
    (void)parse_url(text, "--endpoint");
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(Url, HasTheSchemesPortUnlessOneIsStated) {
  EXPECT_EQ(parse_url("http://server", "x"), (Url{false, "server", 80, ""}));
  EXPECT_EQ(parse_url("https://server", "x"), (Url{true, "server", 443, ""}));
  EXPECT_EQ(parse_url("http://server:8000", "x").port, 8000);
}

TEST(Url, KeepsABasePathWithoutItsLastSlash) {
  EXPECT_EQ(parse_url("http://server/a/b/", "x").path, "/a/b");
  EXPECT_EQ(parse_url("http://server/", "x").path, "");
}

TEST(Url, PutsBracketsAroundIpv6Only) {
  const Url url = parse_url("https://[::1]:8443/base", "x");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.authority(), "[::1]:8443");
  EXPECT_EQ(url.text(), "https://[::1]:8443/base");
  EXPECT_EQ(parse_url("http://[::1]", "x").authority(), "[::1]");
}

TEST(Url, KnowsWhatStaysOnThisMachine) {
  for (const char* const local : {"http://localhost", "http://127.0.0.1", "http://127.8.9.1:99", "http://[::1]"})
    EXPECT_TRUE(parse_url(local, "x").is_loopback()) << local;
  for (const char* const remote : {"http://10.0.0.1", "http://127.example.com", "http://localhost.example.com"})
    EXPECT_FALSE(parse_url(remote, "x").is_loopback()) << remote;
}

// A password in a URL could end up in logs, so the message must not contain it.
TEST(Url, RefusesUserInformationWithoutRepeatingIt) {
  const std::string message = message_of("https://user:secret@server/v1");
  EXPECT_NE(message.find("--endpoint: the URL has user information"), std::string::npos);
  EXPECT_EQ(message.find("secret"), std::string::npos);
}

TEST(Url, RefusesWhatIsNone) {
  for (const char* const text :
       {"", "server:8000", "ftp://server", "http://", "http://a b", "http://a\nb", "http://[::1", "http://[server]",
        "http://::1", "http://server:0", "http://server:65536", "http://server:x", "http://server:", "http://s/p?q",
        "http://s/#f", "http://s\\p"})
    EXPECT_FALSE(message_of(text).empty()) << text;
}

}  // namespace
}  // namespace plimsoll::net

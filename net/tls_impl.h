// SPDX-License-Identifier: Apache-2.0
// For sources of net/ that speak TLS.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <string>

#include "net/tls.h"
#include "net/url.h"

namespace plimsoll::net {

struct TlsContext::Impl {
  boost::asio::ssl::context context{boost::asio::ssl::context::tls_client};
  bool insecure = false;
};

/// Makes a session ask for the host by name and check the certificate against it.
void expect_host(SSL* session, const Url& url, bool insecure);
/// Why a handshake failed, in one sentence without the host: "the certificate has expired".
[[nodiscard]] std::string handshake_failure(SSL* session, const std::string& error);

}  // namespace plimsoll::net

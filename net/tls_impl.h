// SPDX-License-Identifier: Apache-2.0
// The inside of TlsContext, for sources of net/ that use TLS.
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

/// Makes a session request the host by name (SNI) and check the certificate against that name.
void expect_host(SSL* session, const Url& url, bool insecure);
/// Returns why a handshake failed, in one sentence without the host: "the certificate has expired".
[[nodiscard]] std::string handshake_failure(SSL* session, const std::string& error);

}  // namespace plimsoll::net

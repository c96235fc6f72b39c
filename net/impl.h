// SPDX-License-Identifier: Apache-2.0
// The insides of EventLoop and TlsContext, for sources of net/ that open sockets or use TLS.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>

#include "net/event_loop.h"
#include "net/tls.h"
#include "net/url.h"

namespace plimsoll::net {

struct EventLoop::Impl {
  boost::asio::io_context context{1};
  boost::asio::steady_timer timer{context};
  bool stopped = false, due = false;
  std::uint64_t turn = 0;  // number of the current run(), so that it ignores timers of earlier ones
};

struct TlsContext::Impl {
  boost::asio::ssl::context context{boost::asio::ssl::context::tls_client};
  bool insecure = false;
};

/// Makes a session request the host by name (SNI) and check the certificate against that name.
void expect_host(SSL* session, const Url& url, bool insecure);
/// Returns why a handshake failed, in one sentence without the host: "the certificate has expired".
[[nodiscard]] std::string handshake_failure(SSL* session, const std::string& error);

}  // namespace plimsoll::net

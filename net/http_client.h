// SPDX-License-Identifier: Apache-2.0
// A client of one HTTP/1.1 server, plain or over TLS, with as many connections as there are calls at once. Connections
// are kept open and reused. Redirects are not followed, nothing is read from the environment. One thread: everything
// is called by it, within EventLoop::run().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/event_loop.h"
#include "net/http_response.h"
#include "net/tls.h"
#include "net/url.h"

namespace plimsoll::net {

struct HttpRequest {
  std::string method = "GET", target;  // the target without the URL's base path
  std::string content_type;            // of the body
  std::string body;
};

/// Why a call has no complete answer.
enum class HttpFailure : std::uint8_t {
  refused,    // no connection: nothing listens there, or it cannot be reached
  tls,        // no connection that can be trusted
  closed,     // the server closed the connection before the answer was complete
  malformed,  // the answer is no HTTP
  stopped,    // the handler wanted no more
};

/// How a call ended.
struct HttpEnd {
  std::optional<HttpFailure> failure;
  std::string text;                        // of the failure, one line
  bool reopened = false;                   // a kept connection was closed before any byte of the answer, and replaced
  Deadline sent{};                         // when the request had been handed to the connection
  std::chrono::nanoseconds connecting{0};  // 0: a kept connection
};

/// Hears of one call. The client keeps it until ended(), or cancel().
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  /// The request is handed to the connection: what is known of the end by now. Also from within HttpClient::send().
  virtual void sent(const HttpEnd& /*so_far*/) {}
  /// False: no more is wanted, the connection is closed.
  virtual bool head(const HttpHead& head) = 0;
  virtual bool body(std::string_view bytes) = 0;
  virtual void ended(const HttpEnd& end) = 0;
};

struct HttpClientSettings {
  Url server;
  std::optional<Url> proxy;  // http only
  TlsSettings tls;
  std::vector<std::pair<std::string, std::string>> headers;  // of every request, such as keys
  std::chrono::milliseconds connect_within{10'000};          // TLS included
};

class HttpClient {
 public:
  /// Resolves the host name. Throws DeviceError if it has no address, InputError for TLS files. The loop outlives the
  /// client.
  HttpClient(EventLoop& loop, HttpClientSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  using CallId = std::uint64_t;
  /// Sends the request. `call` hears of it from within the loop, never from here.
  CallId send(HttpRequest request, std::shared_ptr<HttpCall> call);
  /// Ends the call without a further word to it, and closes its connection, so that the server can cancel.
  void cancel(CallId id);
  void cancel_all();
  /// Connections that are open.
  [[nodiscard]] std::size_t connections() const;

  struct Impl;  // http_client.cpp

 private:
  std::shared_ptr<Impl> impl_;
};

/// A whole answer.
struct HttpAnswer {
  HttpHead head;
  std::string body;  // the first `most_body` bytes
  HttpEnd end;
  bool timed_out = false;
  [[nodiscard]] bool is_complete() const { return !end.failure && !timed_out; }
};

/// Sends the request and runs the loop until the answer is there.
[[nodiscard]] HttpAnswer fetch(EventLoop& loop, HttpClient& client, HttpRequest request,
                               std::chrono::milliseconds within, std::size_t most_body = std::size_t{1} << 20);

}  // namespace plimsoll::net

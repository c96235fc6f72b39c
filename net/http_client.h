// SPDX-License-Identifier: Apache-2.0
// A client of one HTTP/1.1 server, plain or over TLS. It opens as many connections as there are calls at once, keeps
// them open and reuses them. It follows no redirects and reads no environment variables. For one thread: handlers are
// called by it, within EventLoop::run().
#pragma once

#include <chrono>
#include <cstdint>
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
  std::string method = "GET", target;  // the target is relative to the base path of the URL
  std::string content_type;            // of the body
  std::string body;
};

/// Why a call failed.
enum class HttpFailure : std::uint8_t {
  refused,    // no connection: nothing listens there, or the host cannot be reached
  tls,        // the TLS handshake failed
  closed,     // the server closed the connection before the answer was complete
  malformed,  // the answer is not valid HTTP
  stopped,    // the handler returned false
};

/// How a call ended.
struct HttpEnd {
  std::optional<HttpFailure> failure;
  std::string text;                        // describes the failure in one line
  bool reopened = false;                   // the request was repeated, as the server had closed a kept connection
  Deadline sent{};                         // when the request was handed to the connection
  std::chrono::nanoseconds connecting{0};  // time to connect; 0 for a kept connection
};

/// Receives the events of one call. The client keeps it until ended() or cancel().
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  /// Called when the request is handed to the connection, with the fields known so far; possibly within
  /// HttpClient::send().
  virtual void sent(const HttpEnd& /*so_far*/) {}
  /// head() and body() return false to stop: the connection is then closed, and ended() reports HttpFailure::stopped.
  virtual bool head(const HttpHead& head) = 0;
  virtual bool body(std::string_view bytes) = 0;
  virtual void ended(const HttpEnd& end) = 0;
};

struct HttpClientSettings {
  Url server;
  std::optional<Url> proxy;  // with http:// only
  TlsSettings tls;
  std::vector<std::pair<std::string, std::string>> headers;  // sent with every request, such as keys
  std::chrono::milliseconds connect_within{10'000};          // includes the TLS handshake
};

class HttpClient {
 public:
  /// Resolves the host name. Throws DeviceError if it has no address, InputError for unusable TLS files. The loop must
  /// outlive the client.
  HttpClient(EventLoop& loop, HttpClientSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  using CallId = std::uint64_t;
  /// Sends the request. `call` is notified from within EventLoop::run(), never from this function.
  CallId send(HttpRequest request, std::shared_ptr<HttpCall> call);
  /// Ends the call without notifying it, and closes its connection so that the server can cancel too.
  void cancel(CallId id);
  void cancel_all();
  /// Returns the number of open connections.
  [[nodiscard]] std::size_t connections() const;

  struct Impl;  // http_client.cpp

 private:
  std::shared_ptr<Impl> impl_;
};

/// A complete answer, with its body in memory.
struct HttpAnswer {
  HttpHead head;
  std::string body;  // at most `most_body` bytes
  HttpEnd end;
  bool timed_out = false;
  [[nodiscard]] bool is_complete() const { return !end.failure && !timed_out; }
};

/// The longest time to wait for a complete answer, and how many bytes of its body to read.
struct FetchLimits {
  std::chrono::milliseconds within;
  std::size_t most_body = std::size_t{1} << 20;
};

/// Sends the request and runs the loop until the answer is complete or the time has passed.
[[nodiscard]] HttpAnswer fetch(EventLoop& loop, HttpClient& client, HttpRequest request, FetchLimits limits);

}  // namespace plimsoll::net

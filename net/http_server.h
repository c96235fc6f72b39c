// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server for one thread, which calls it between other work: it reads requests, and writes answers whole or
// as streams. Limits protect against hostile clients: time and bytes of a header, of a body and of all bodies together,
// and the number of connections. When that number is reached, the connection that has waited longest without a request
// is closed for a new one.
//
// Streams buffer no text for slow readers: the handler writes more when writable() reports that everything was sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll::net {

struct HttpLimits {
  std::size_t header_bytes = std::size_t{16} << 10U;
  std::size_t body_bytes = std::size_t{16} << 20U;     // of one request
  std::size_t bodies_bytes = std::size_t{256} << 20U;  // of all requests in progress
  std::size_t connections = 16'384;                    // the limit of open files also applies
  std::chrono::milliseconds header_time{10'000};       // from a request's first byte to the end of its header
  std::chrono::milliseconds body_time{60'000};
  std::chrono::milliseconds idle_time{75'000};   // a connection without a request
  std::chrono::milliseconds write_time{60'000};  // while no byte can be sent
};

/// A request as the server received it.
struct ServerRequest {
  std::string method, path;  // the path as sent, without its query
  std::string authorization, body;
  std::chrono::steady_clock::time_point received{};  // when its last bytes were read, or its turn came
};

/// An answer for the server to send.
struct ServerAnswer {
  int status = 200;
  std::string_view content_type = "application/json";
  std::string body = {};
  std::string headers = {};  // additional header lines, each with \r\n
};

/// A request and its answer.
using ExchangeId = std::uint64_t;

/// Callbacks of the server, on the thread of run_until().
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// A complete request has arrived. The answer may be given immediately or later.
  virtual void request(ExchangeId id, ServerRequest&& request) = 0;
  /// Everything written to the stream has been sent.
  virtual void writable(ExchangeId id) = 0;
  /// The client left before its whole answer was sent. `id` is void from now on.
  virtual void gone(ExchangeId id) = 0;
  /// Returns the body of an error answer to a request that is malformed or exceeds a limit.
  virtual std::string error_body(int status, std::string_view text) = 0;
  /// SIGTERM or SIGINT, after watch_signals(); each time.
  virtual void stop_requested() = 0;
};

class HttpServer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `headers` (lines with \r\n) are added to each answer. The handler must outlive the server.
  HttpServer(HttpHandler& handler, const HttpLimits& limits, std::string headers = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Starts to accept connections. Returns the base URL: scheme, host and port. Throws DeviceError if the address
  /// cannot be used.
  [[nodiscard]] std::string listen(const std::string& host, std::uint16_t port);
  /// Starts to pass SIGTERM and SIGINT to the handler.
  void watch_signals();
  /// Starts to refuse new connections.
  void stop_listening();

  /// Serves until `until` or wake(). If that time has passed, serves for a short while what is already ready.
  void run_until(Time until);
  /// Makes run_until() return as soon as it can.
  void wake();
  /// Makes run_until() call `work`. The only function that any thread may call.
  void post(std::function<void()> work);

  // ---- answers. Calls with a void id do nothing. ------------------------------------------------------------
  void answer(ExchangeId id, const ServerAnswer& answer);
  /// Begins an answer in parts. The header is sent with the first part.
  void begin_stream(ExchangeId id, std::string_view content_type);
  /// Returns whether everything written so far has been sent. Call write() only then.
  [[nodiscard]] bool is_writable(ExchangeId id) const;
  /// Writes the next part of a stream; `last` ends the answer.
  void write(ExchangeId id, std::string_view part, bool last);
  /// Closes the connection at once, even if part of the answer has not been sent.
  void cut(ExchangeId id);

  [[nodiscard]] std::size_t connections() const;
  /// Returns whether no answer is in progress.
  [[nodiscard]] bool is_idle() const;

 private:
  struct State;
  class Connection;
  std::shared_ptr<State> state_;
};

}  // namespace plimsoll::net

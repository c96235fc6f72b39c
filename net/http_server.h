// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server for one thread, which calls it between its own work: it reads requests, and writes answers whole
// or as streams. Hostile clients are bounded: time and bytes of a header, of a body, of all bodies together, and the
// number of connections. At that number, the connection that has waited longest without a request makes room for a new
// one.
//
// Streams keep no text for slow readers: the handler writes again when writable() says that all has left.
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
  std::size_t bodies_bytes = std::size_t{256} << 20U;  // of all requests that are being read
  std::size_t connections = 16'384;                    // also limited by the files that the process may open
  std::chrono::milliseconds header_time{10'000};       // from a request's first byte to the end of its header
  std::chrono::milliseconds body_time{60'000};
  std::chrono::milliseconds idle_time{75'000};   // of a connection without a request
  std::chrono::milliseconds write_time{60'000};  // without any byte leaving
};

struct HttpRequest {
  std::string method, path;  // the path without its query, as it was sent
  std::string authorization, body;
  std::chrono::steady_clock::time_point received{};  // when its last bytes were read
};

struct HttpAnswer {
  int status = 200;
  std::string_view content_type = "application/json";
  std::string body = {};
  std::string headers = {};  // further lines, each with \r\n
};

/// A request and its answer.
using ExchangeId = std::uint64_t;

/// What the server calls, on the thread of run_until().
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// A request is complete. The answer may be given at once or later.
  virtual void request(ExchangeId id, HttpRequest&& request) = 0;
  /// All that was written to the stream has left.
  virtual void writable(ExchangeId id) = 0;
  /// The client left before its answer had left completely; `id` is void.
  virtual void gone(ExchangeId id) = 0;
  /// The body of an answer to what is no proper request, or beyond a limit.
  virtual std::string error_body(int status, std::string_view text) = 0;
  /// SIGTERM or SIGINT, after watch_signals(); each time.
  virtual void stop_requested() = 0;
};

class HttpServer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `headers` are added to each answer: lines with \r\n. The handler outlives the server.
  HttpServer(HttpHandler& handler, const HttpLimits& limits, std::string headers = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Accepts connections from now on. Returns the base URL: scheme, host and port. Throws DeviceError if the address
  /// cannot be had.
  [[nodiscard]] std::string listen(const std::string& host, std::uint16_t port);
  /// SIGTERM and SIGINT go to the handler from now on.
  void watch_signals();
  /// New connections are refused from now on.
  void stop_listening();

  /// Serves until `until` or wake(). Past that time it serves what is ready, for a short while.
  void run_until(Time until);
  /// run_until() returns as soon as it can.
  void wake();
  /// Has run_until() call `work`. The only function that any thread may call.
  void post(std::function<void()> work);

  // ---- answers. Calls with a void id do nothing. ------------------------------------------------------------
  void answer(ExchangeId id, const HttpAnswer& answer);
  /// The answer comes in parts. Its header leaves with the first.
  void begin_stream(ExchangeId id, std::string_view content_type);
  /// Whether all that was written has left: only then is more to be written.
  [[nodiscard]] bool is_writable(ExchangeId id) const;
  /// The next part of a stream, the last one with `last`.
  void write(ExchangeId id, std::string_view part, bool last);
  /// Ends the connection, whatever has left.
  void cut(ExchangeId id);

  [[nodiscard]] std::size_t connections() const;
  /// No answer is under way.
  [[nodiscard]] bool is_idle() const;

 private:
  struct State;
  class Connection;
  std::shared_ptr<State> state_;
};

}  // namespace plimsoll::net

// SPDX-License-Identifier: Apache-2.0
// Parses the answers of an HTTP/1.1 or HTTP/1.0 server from bytes, however they are split. Memory is bounded: a header
// has at most kMaxHeader bytes, and a body is passed on as it arrives.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::net {

inline constexpr std::size_t kMaxHeader = std::size_t{64} << 10;

/// Returns whether a line ends with LF alone, on which a parser that expects CR LF would wait for ever.
[[nodiscard]] bool has_lone_line_feed(std::string_view lines);

struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names are in lower case

  /// Returns the first field of this name, which must be in lower case; empty if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  /// Returns the content type in lower case, without parameters.
  [[nodiscard]] std::string content_type() const;
};

/// Handlers of what arrives, called by HttpResponseReader::feed() and ended().
struct HttpEvents {
  std::function<bool(const HttpHead&)> head;   // returns false to stop reading
  std::function<bool(std::string_view)> body;  // as head; the piece is never empty
};

class HttpResponseReader {
 public:
  enum class State { reading, done, malformed, stopped };

  /// With `no_body`, the answer has no body whatever its header says. This holds for CONNECT and HEAD.
  explicit HttpResponseReader(HttpEvents events, bool no_body = false);
  ~HttpResponseReader();
  HttpResponseReader(HttpResponseReader&&) noexcept;
  HttpResponseReader& operator=(HttpResponseReader&&) noexcept;

  /// Parses the next bytes. Bytes after the end of the answer are ignored, but then keeps_alive() is false.
  State feed(std::string_view bytes);
  /// Tells that the connection has ended. Returns `done` if that ends the body, otherwise `malformed`.
  State ended();
  /// Says in a few words why the answer is malformed.
  [[nodiscard]] const std::string& error() const;
  /// Whether the connection can carry another request. Valid when done.
  [[nodiscard]] bool keeps_alive() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::net

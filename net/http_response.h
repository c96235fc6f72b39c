// SPDX-License-Identifier: Apache-2.0
// Reads the answers of an HTTP/1.1 or HTTP/1.0 server from bytes, however they are split. Memory is bounded: a header
// has at most kMaxHeader bytes, a body is passed on as it comes.
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

struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case

  /// The first field of this name in lower case; empty: none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  /// The content type in lower case, without parameters.
  [[nodiscard]] std::string content_type() const;
};

/// What arrives; called during HttpResponseReader::feed() and ended().
struct HttpEvents {
  std::function<bool(const HttpHead&)> head;   // false: read no further
  std::function<bool(std::string_view)> body;  // the same; never empty
};

class HttpResponseReader {
 public:
  enum class State { reading, done, malformed, stopped };

  /// With `no_body`, the answer has none whatever its header says: of CONNECT or HEAD.
  explicit HttpResponseReader(HttpEvents events, bool no_body = false);
  ~HttpResponseReader();
  HttpResponseReader(HttpResponseReader&&) noexcept;
  HttpResponseReader& operator=(HttpResponseReader&&) noexcept;

  /// Reads the next bytes. Bytes after the answer's end are ignored, and the connection is then of no further use.
  State feed(std::string_view bytes);
  /// The connection has ended: `done` for a body that lasts until then, otherwise `malformed`.
  State ended();
  /// Why it is malformed, in a few words.
  [[nodiscard]] const std::string& error() const;
  /// Whether the connection can carry another request. Valid when done.
  [[nodiscard]] bool keeps_alive() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::net

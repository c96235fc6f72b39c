// SPDX-License-Identifier: Apache-2.0
// Reads a client's request from bytes, however they are split. Memory is bounded by the limits and grows only with
// received bytes, not with the length that a client states.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "net/http_server.h"

namespace plimsoll::net {

class HttpRequestReader {
 public:
  enum class State { reading, done, faulty };

  /// The limits outlive the reader.
  explicit HttpRequestReader(const HttpLimits& limits);
  ~HttpRequestReader();
  HttpRequestReader(HttpRequestReader&&) noexcept;
  HttpRequestReader& operator=(HttpRequestReader&&) noexcept;

  /// Parses the beginning of `bytes` and removes it. Bytes behind the request, and incomplete elements, stay. Call it
  /// until it removes nothing or the state is no longer `reading`.
  State feed(std::string& bytes);
  /// Returns whether a byte of the request has been read.
  [[nodiscard]] bool has_begun() const;
  [[nodiscard]] bool has_header() const;
  /// Returns whether the client waits for "100 Continue" before it sends the body. Valid once the header has been read.
  [[nodiscard]] bool waits_to_continue() const;
  /// Returns how many bytes of the body have been read so far.
  [[nodiscard]] std::size_t body_bytes() const;
  /// Returns the status and text of the error answer to a faulty request.
  [[nodiscard]] int fault_status() const;
  [[nodiscard]] const std::string& fault() const;

  /// Properties that the answer must have. Valid when done, before take().
  [[nodiscard]] bool keeps_alive() const;
  [[nodiscard]] bool knows_chunks() const;  // HTTP/1.1
  [[nodiscard]] ServerRequest take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::net

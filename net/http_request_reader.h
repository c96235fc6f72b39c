// SPDX-License-Identifier: Apache-2.0
// Reads a client's request from bytes, however they are split. Memory is bounded by the limits: a length that a client
// only states takes none.
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

  /// Reads the beginning of `bytes` and removes it. What follows the request stays, and so does the beginning of what
  /// cannot be read yet. It is to be called until it removes nothing, or is not `reading` any more.
  State feed(std::string& bytes);
  /// A byte of the request has been read.
  [[nodiscard]] bool has_begun() const;
  [[nodiscard]] bool has_header() const;
  /// The client waits for "100 Continue" before it sends the body. Valid with the header.
  [[nodiscard]] bool waits_to_continue() const;
  /// Of the body so far.
  [[nodiscard]] std::size_t body_bytes() const;
  /// Why it is faulty: an answer's status and text.
  [[nodiscard]] int fault_status() const;
  [[nodiscard]] const std::string& fault() const;

  /// How the answer must look. Valid when done, before take().
  [[nodiscard]] bool keeps_alive() const;
  [[nodiscard]] bool knows_chunks() const;  // HTTP/1.1
  [[nodiscard]] ServerRequest take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::net

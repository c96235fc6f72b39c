// SPDX-License-Identifier: Apache-2.0
// Reads the bytes of a trace or a table, plain or gzip, one piece at a time.
//
// gzip is recognised by its magic number, whatever the file is called. Small files that expand without end are refused:
// beyond kFreeExpansion bytes, the ratio must not exceed kMaxExpansion (real traces stay below 30).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace plimsoll::traces {

class ByteSource {
 public:
  static constexpr std::uint64_t kFreeExpansion = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kMaxExpansion = 200;

  /// Throws TraceError: not-found, is-a-directory, cannot-open, gzip-magic (named .gz but other content).
  explicit ByteSource(const std::string& file);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Fills the beginning of `out` and returns the number of bytes; 0 at the end. Throws TraceError: read-failed,
  /// gzip-truncated, gzip-crc, gzip-corrupt, gzip-bomb, gzip-trailing.
  [[nodiscard]] std::size_t read(std::span<char> out);
  /// Reads on, up to 256 MiB, so that a damaged archive is detected even if its text was refused first.
  void drain();
  [[nodiscard]] bool is_gzip() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::traces

// SPDX-License-Identifier: Apache-2.0
// The bytes of a trace or a table, plain or gzip, a piece at a time.
//
// gzip is recognised by its magic number whatever the file is called. Small compressed files that expand without end
// are refused: beyond kFreeExpansion the ratio may not pass kMaxExpansion (CSV and JSON of real traces stay below 30).
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

  /// Throws TraceError: not-found, is-a-directory, cannot-open, gzip-magic (named .gz but something else).
  explicit ByteSource(const std::string& file);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Fills the front of `out` and returns how many bytes, 0 at the end. Throws TraceError: read-failed,
  /// gzip-truncated, gzip-crc, gzip-corrupt, gzip-bomb, gzip-trailing.
  [[nodiscard]] std::size_t read(std::span<char> out);
  /// Reads on (256 MiB at most) so that a damaged archive is found even when its text was refused first.
  void drain();
  [[nodiscard]] bool is_gzip() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::traces

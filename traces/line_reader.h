// SPDX-License-Identifier: Apache-2.0
// Returns the physical lines of a ByteSource, without an additional copy.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "traces/byte_source.h"

namespace plimsoll::traces {

class LineReader {
 public:
  /// Longer lines are refused: no format has such records (a Mooncake row of a million tokens has about 20 kB).
  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;

  LineReader(ByteSource& source, std::string file);

  /// Returns the beginning of the unread text for recognition: at least `wanted` bytes unless the file ends before.
  [[nodiscard]] std::string_view peek(std::size_t wanted);
  /// Skips bytes at the beginning of the file (a byte-order mark).
  void skip(std::size_t bytes) { begin_ += bytes; }
  /// Returns the next line without its end (LF or CRLF), which is valid until the next call. Returns false at the end
  /// of the file. Throws TraceError line-too-long, and the errors of the source.
  [[nodiscard]] bool next(std::string_view& line);
  /// Returns the number of the line that next() returned last, from 1.
  [[nodiscard]] std::size_t number() const { return number_; }
  /// Returns whether that line was the last one and had no line end.
  [[nodiscard]] bool unterminated() const { return unterminated_; }
  /// Returns whether only blanks and line ends follow. Looks no further than the current piece and the next.
  [[nodiscard]] bool at_end();

 private:
  bool refill();

  ByteSource& source_;
  std::string file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0, number_ = 0;
  bool ended_ = false, unterminated_ = false;
};

}  // namespace plimsoll::traces

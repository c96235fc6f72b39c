// SPDX-License-Identifier: Apache-2.0
// Physical lines of a ByteSource without copying them twice.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "traces/byte_source.h"

namespace plimsoll::traces {

class LineReader {
 public:
  /// A longer line is no record of any format (a Mooncake row of a million tokens has some 20 kB).
  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;

  LineReader(ByteSource& source, std::string file);

  /// The start of what is not yet read (at least `wanted` bytes unless the file ends before), for recognition.
  [[nodiscard]] std::string_view peek(std::size_t wanted);
  /// Drops bytes at the very start (a byte-order mark).
  void skip(std::size_t bytes) { begin_ += bytes; }
  /// The next line without its end (LF or CRLF), valid until the next call; false at the end of the file.
  /// Throws TraceError line-too-long and whatever the source throws.
  [[nodiscard]] bool next(std::string_view& line);
  /// Number of the line that next() gave last, from 1.
  [[nodiscard]] std::size_t number() const { return number_; }
  /// Whether that line was the last and had no line end.
  [[nodiscard]] bool unterminated() const { return unterminated_; }
  /// Whether nothing but blanks and line ends follows; looks ahead only within the present piece and the next.
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

// SPDX-License-Identifier: Apache-2.0
// A cursor over one line of JSON lines: strict RFC 8259, nothing allocated, nesting bounded. Internal to traces/.
//
// A general JSON library would build a tree for each of the many lines and loses the key and the byte of a fault,
// which the messages need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "traces/fields.h"

namespace plimsoll::traces {

enum class JsonKind : std::uint8_t { object, array, string, number, boolean, null, none };

[[nodiscard]] std::string_view name_of(JsonKind kind);

class JsonLine {
 public:
  /// Deeper values are refused (code json-depth): the parser calls itself once a level.
  static constexpr int kMaxDepth = 64;

  explicit JsonLine(std::string_view text) : text_(text) {}

  /// Kind of the value at the cursor by its first byte; none at the end or where no value can start. Skips blanks.
  [[nodiscard]] JsonKind kind();
  /// Takes `c` if it comes next.
  [[nodiscard]] bool take(char c);
  /// The raw inside of a string, escapes checked but kept.
  [[nodiscard]] Fault string(std::string_view& out);
  /// The text of a number, checked against the grammar.
  [[nodiscard]] Fault number(std::string_view& out);
  /// Passes over a value of any kind.
  [[nodiscard]] Fault skip(int depth = 0);
  /// Whether only blanks are left.
  [[nodiscard]] bool done();
  /// json-syntax with what was found at the cursor.
  [[nodiscard]] Fault expected(std::string_view what);
  /// Whether the cursor is at the end of the line.
  [[nodiscard]] bool at_end();
  /// Byte column of the cursor, from 1.
  [[nodiscard]] std::size_t column() const { return at_ + 1; }

 private:
  Fault escape();
  Fault skip_object(int depth);
  Fault skip_array(int depth);
  Fault skip_literal();
  void blanks();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace plimsoll::traces

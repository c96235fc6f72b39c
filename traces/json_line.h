// SPDX-License-Identifier: Apache-2.0
// A cursor over one line of JSON: strict RFC 8259, no allocation, bounded nesting. Internal to traces/.
//
// A general JSON library would build a tree for each of the many lines. It would also lose the key and the position of
// a fault, which messages need.
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
  /// Deeper values are refused (code json-depth), because the parser recurses once per level.
  static constexpr int kMaxDepth = 64;

  explicit JsonLine(std::string_view text) : text_(text) {}

  /// Skips blanks and returns the kind of the value at the cursor, by its first byte; `none` if no value begins there.
  [[nodiscard]] JsonKind kind();
  /// Consumes `c` if it is next; returns whether it was.
  [[nodiscard]] bool take(char c);
  /// Reads a string. Returns its raw content: escapes are checked but not resolved.
  [[nodiscard]] Fault string(std::string_view& out);
  /// Reads a number. Returns its text, checked against the grammar.
  [[nodiscard]] Fault number(std::string_view& out);
  /// Skips a value of any kind.
  [[nodiscard]] Fault skip(int depth = 0);
  /// Returns whether only blanks remain.
  [[nodiscard]] bool done();
  /// Returns the fault json-syntax, which states what was expected and what was found at the cursor.
  [[nodiscard]] Fault expected(std::string_view what);
  /// Returns whether the cursor is at the end of the line.
  [[nodiscard]] bool at_end();
  /// Returns the byte column of the cursor, from 1.
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

// SPDX-License-Identifier: Apache-2.0
// The known trace formats as tables, so that another CSV dialect needs an entry but no code. Internal to traces/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::traces {

enum class Role : std::uint8_t { other, arrival, input, output, total, session, parent, prefix, priority, gap, turns };
enum class TimeUnit : std::uint8_t { none, date, seconds, milliseconds, nanoseconds };
enum class Need : std::uint8_t {
  required,
  expected,  // rows without it are used, with a warning
  optional
};
enum class Syntax : std::uint8_t { csv, jsonl };

/// A column of a CSV file, or a key of a JSON record.
struct Column {
  std::string_view name;
  Role role = Role::other;
  Need need = Need::optional;
};

struct TraceFormat {
  std::string_view name;
  Syntax syntax = Syntax::csv;
  TimeUnit time = TimeUnit::none;
  std::int32_t hash_block_tokens = 0;  // the publisher's block size; 0 if the format has no prefixes
  std::span<const Column> columns;
};

/// Returns all formats, those preferred in recognition first.
[[nodiscard]] std::span<const TraceFormat> all_formats();
/// Returns the format of this name; `-` and `_` are equivalent. Null if there is none.
[[nodiscard]] const TraceFormat* find_format(std::string_view name);
/// Returns the nanoseconds in one unit (1 for dates).
[[nodiscard]] double nanos_per(TimeUnit unit);
/// Returns the columns that a file of this format should have: "a,b,c".
[[nodiscard]] std::string column_list(const TraceFormat& format);

/// Recognises a file by its beginning (a few thousand bytes, without byte-order mark). Null if no format fits.
[[nodiscard]] const TraceFormat* recognise(std::string_view beginning);

}  // namespace plimsoll::traces

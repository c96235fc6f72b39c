// SPDX-License-Identifier: Apache-2.0
// The known trace formats as tables, so that a new CSV dialect is a new entry and no code. Internal to traces/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::traces {

enum class Role : std::uint8_t { other, arrival, input, output, total, session, parent, prefix, priority };
enum class TimeUnit : std::uint8_t { none, date, seconds, milliseconds, nanoseconds };
enum class Need : std::uint8_t {
  required,
  expected,  // a row without it is used, and said to lack it
  optional
};
enum class Syntax : std::uint8_t { csv, jsonl };

/// One column of a CSV file or one key of a JSON record.
struct Column {
  std::string_view name;
  Role role = Role::other;
  Need need = Need::optional;
};

struct TraceFormat {
  std::string_view name;
  Syntax syntax = Syntax::csv;
  TimeUnit time = TimeUnit::none;
  std::int32_t hash_block_tokens = 0;  // the publisher's block size; 0: no prefixes
  std::span<const Column> columns;
};

/// Every format, in the order in which recognition prefers them.
[[nodiscard]] std::span<const TraceFormat> all_formats();
/// By name, `-` and `_` alike; null when there is none.
[[nodiscard]] const TraceFormat* find_format(std::string_view name);
/// Nanoseconds of one unit (date: 1).
[[nodiscard]] double nanos_per(TimeUnit unit);
/// "a,b,c": the columns a file of this format is expected to have.
[[nodiscard]] std::string column_list(const TraceFormat& format);

/// Recognises a file by its beginning (up to a few thousand bytes, byte-order mark removed). Null when nothing fits.
[[nodiscard]] const TraceFormat* recognise(std::string_view beginning);

}  // namespace plimsoll::traces

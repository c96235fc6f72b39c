// SPDX-License-Identifier: Apache-2.0
// Parses the values in a row: token counts, times, dates. One strict grammar for all formats. Internal to traces/.
//
// Each function returns Fault{} if the text is valid. The functions use no locale, and allocate only on errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/units.h"

namespace plimsoll::traces {

/// Why a value is invalid; an empty code means that it is valid.
struct Fault {
  std::string_view code;  // a string literal
  std::string text;
  explicit operator bool() const { return !code.empty(); }
};

/// Parses digits only, 0 … 2^31-1. Codes: empty-field, negative, out-of-range, not-an-integer, not-a-number.
[[nodiscard]] Fault parse_tokens(std::string_view text, std::int32_t& out);
/// Parses an integer, -2^31 … 2^31-1. Codes: empty-field, out-of-range, not-an-integer, not-a-number.
[[nodiscard]] Fault parse_priority(std::string_view text, std::int32_t& out);
/// Parses a block id or a session: digits only, 0 … 2^63-1.
[[nodiscard]] Fault parse_id(std::string_view text, std::uint64_t& out);
/// Parses a decimal number in units of `unit` nanoseconds and rounds it to whole nanoseconds; integers of ns are exact.
/// Codes: bad-timestamp, negative, out-of-range.
[[nodiscard]] Fault parse_time(std::string_view text, double unit, Nanos& out);
/// Converts a number that parse_time cannot read exactly as an integer; rounds to ns. Codes: negative, out-of-range.
[[nodiscard]] Fault nanos_of(double value, double unit, Nanos& out);

/// YYYY-MM-DD, a blank or T, HH:MM:SS, and up to nine digits of fraction. Then nothing, Z, or an offset ±HH:MM, which
/// is applied. The result is in ns since 1970-01-01 UTC; without a zone the time counts as UTC.
struct DateTime {
  Nanos nanos = 0;
  bool has_zone = false;
};
[[nodiscard]] Fault parse_date_time(std::string_view text, DateTime& out);

}  // namespace plimsoll::traces

// SPDX-License-Identifier: Apache-2.0
// The values inside a row: token counts, times, dates. One strict grammar for every format. Internal to traces/.
//
// Each function returns Fault{} when the text is good. No locale, no allocation on the good path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/units.h"

namespace plimsoll::traces {

/// Empty code: no fault.
struct Fault {
  std::string_view code;  // a literal
  std::string text;
  explicit operator bool() const { return !code.empty(); }
};

/// Digits only, 0 … 2^31-1. Codes empty-field, negative, out-of-range, not-an-integer, not-a-number.
[[nodiscard]] Fault parse_tokens(std::string_view text, std::int32_t& out);
/// An integer, -2^31 … 2^31-1. Codes empty-field, out-of-range, not-an-integer, not-a-number.
[[nodiscard]] Fault parse_priority(std::string_view text, std::int32_t& out);
/// Digits only, 0 … 2^63-1, of a block id or a session.
[[nodiscard]] Fault parse_id(std::string_view text, std::uint64_t& out);
/// A decimal number of `unit` nanoseconds, rounded to whole nanoseconds (integers of ns are exact). Codes
/// bad-timestamp, negative, out-of-range.
[[nodiscard]] Fault parse_time(std::string_view text, double unit, Nanos& out);
/// A number that parse_time could not take exactly as an integer: rounded to ns. Codes negative, out-of-range.
[[nodiscard]] Fault nanos_of(double value, double unit, Nanos& out);

/// YYYY-MM-DD, a blank or T, HH:MM:SS, up to nine digits of fraction, then nothing, Z or an offset ±HH:MM that is
/// applied: ns since 1970-01-01 UTC. Without a zone the time is taken as UTC.
struct DateTime {
  Nanos nanos = 0;
  bool has_zone = false;
};
[[nodiscard]] Fault parse_date_time(std::string_view text, DateTime& out);

}  // namespace plimsoll::traces

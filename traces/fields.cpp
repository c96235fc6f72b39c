// SPDX-License-Identifier: Apache-2.0
#include "traces/fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "traces/text.h"

namespace plimsoll::traces {
namespace {

constexpr std::string_view kDateForm = "expected YYYY-MM-DD HH:MM:SS[.fraction][Z|+HH:MM]";

bool all_digits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

// Returns why the text is not an unsigned integer; `noun` describes the content of the column.
Fault why_not_integer(std::string_view text, std::string_view noun) {
  const std::string shown = quoted(text);
  if (text.empty()) return {"empty-field", "empty value"};
  if (text[0] == '-' && all_digits(text.substr(1)))
    return {"negative", fmt::format("{} must be >= 0, got {}", noun, shown)};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0), text.size());
  const bool fraction = digits < text.size() && text[digits] == '.' && all_digits(text.substr(digits + 1));
  if (fraction && digits > 0) return {"not-an-integer", fmt::format("{} must be an integer, got {}", noun, shown)};
  if (digits > 0)
    return {"not-a-number",
            fmt::format("{} is not a decimal integer: {} follow the digits", shown, quoted(text.substr(digits)))};
  return {"not-a-number", fmt::format("{} is {}", noun, shown)};
}

// Returns the number that the two digits at `at` form, or -1.
int two_digits(std::string_view text, std::size_t at) {
  if (!is_digit(text[at]) || !is_digit(text[at + 1])) return -1;
  return (text[at] - '0') * 10 + (text[at + 1] - '0');
}

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_in_month(int year, int month) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && is_leap(year) ? 29 : kDays[static_cast<std::size_t>(month - 1)];
}

// Returns the days since 1970-01-01 in the Gregorian calendar, for years 1970 to 2261 (the range of int64 ns).
std::int64_t days_since_1970(int year, int month, int day) {
  constexpr std::array<int, 12> kBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const int past = year - 1;
  const std::int64_t leaps = past / 4 - past / 100 + past / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
  const int leap_day = month > 2 && is_leap(year) ? 1 : 0;
  return (year - 1970) * std::int64_t{365} + leaps + kBefore[static_cast<std::size_t>(month - 1)] + leap_day + day - 1;
}

struct Clock {
  int year, month, day, hour, minute, second;
};

Fault bad_date(std::string_view part, int value) {
  return {"bad-timestamp", fmt::format("{} {} is not valid", part, value)};
}

Fault check_ranges(const Clock& c) {
  if (c.year < 1970 || c.year > 2261)
    return {"bad-timestamp", fmt::format("year {} is not valid (1970 to 2261)", c.year)};
  if (c.month < 1 || c.month > 12) return bad_date("month", c.month);
  if (c.day < 1 || c.day > days_in_month(c.year, c.month)) return bad_date("day", c.day);
  if (c.hour > 23) return bad_date("hour", c.hour);
  if (c.minute > 59) return bad_date("minute", c.minute);
  if (c.second > 59) return bad_date("second", c.second);
  return {};
}

// Removes ".fraction" from the beginning of `rest` and returns its nanoseconds.
Fault take_fraction(std::string_view& rest, Nanos& nanos) {
  if (!rest.starts_with('.')) return {};
  std::size_t digits = 1;
  Nanos unit = 100'000'000;
  for (; digits < rest.size() && is_digit(rest[digits]); ++digits, unit /= 10) nanos += (rest[digits] - '0') * unit;
  if (digits == 1) return {"bad-timestamp", "no digits after the decimal point"};
  if (digits > 10) return {"bad-timestamp", "more than 9 fractional digits"};
  rest.remove_prefix(digits);
  return {};
}

// Parses the zone; offsets in use range from -12:00 to +14:00.
Fault take_zone(std::string_view rest, DateTime& out) {
  if (rest.empty()) return {};
  out.has_zone = true;
  if (rest == "Z") return {};
  const bool signed_offset = rest.size() == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':';
  if (!signed_offset) return {"bad-timestamp", fmt::format("{} after the time: {}", quoted(rest), kDateForm)};
  const int hours = two_digits(rest, 1), minutes = two_digits(rest, 4);
  if (hours < 0 || minutes < 0 || minutes > 59 || hours * 60 + minutes > 14 * 60) {
    return {"bad-timestamp", fmt::format("UTC offset {} is not valid", quoted(rest))};
  }
  const Nanos offset = (hours * Nanos{60} + minutes) * 60'000'000'000;
  // East of Greenwich, local time is ahead of UTC, so a positive offset is subtracted.
  out.nanos += rest[0] == '+' ? -offset : offset;
  return {};
}

}  // namespace

// Tries the valid case first, because a trace has millions of numbers; the fault is determined only if that fails.
Fault parse_tokens(std::string_view text, std::int32_t& out) {
  const char* end = text.data() + text.size();
  if (!text.empty() && is_digit(text[0])) {
    const auto [stop, error] = std::from_chars(text.data(), end, out);
    if (error == std::errc{} && stop == end) return {};
    if (error != std::errc{} && stop == end) {
      return {"out-of-range", fmt::format("{} does not fit (limit 2147483647 tokens)", quoted(text))};
    }
  }
  return why_not_integer(text, "token count");
}

Fault parse_priority(std::string_view text, std::int32_t& out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error == std::errc{} && stop == end) return {};
  if (error == std::errc::result_out_of_range && stop == end)
    return {"out-of-range", fmt::format("{} does not fit (-2147483648 to 2147483647)", quoted(text))};
  return why_not_integer(text.starts_with('-') ? text.substr(1) : text, "priority");
}

Fault parse_id(std::string_view text, std::uint64_t& out) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  if (!text.empty() && is_digit(text[0])) {
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    out = static_cast<std::uint64_t>(value);
    if (error == std::errc{} && stop == end) return {};
    if (error != std::errc{} && stop == end) return {"out-of-range", fmt::format("{} is above 2^63-1", quoted(text))};
  }
  return why_not_integer(text, "id");
}

Fault nanos_of(double value, double unit, Nanos& out) {
  // 2^63 as a double; smaller values convert without overflow.
  constexpr double kLimit = 9223372036854775808.0;
  if (value < 0) return {"negative", "negative arrival time"};
  if (!(value * unit < kLimit)) return {"out-of-range", "arrival time beyond the representable range (2^63 ns)"};
  out = std::llround(value * unit);
  return {};
}

Fault parse_time(std::string_view text, double unit, Nanos& out) {
  if (text.empty()) return {"bad-timestamp", "empty timestamp"};
  const char* end = text.data() + text.size();
  // Read nanoseconds as integers: those since 1970 need 61 bits, more than a double holds exactly.
  if (unit == 1.0) {
    const auto [stop, error] = std::from_chars(text.data(), end, out);
    if (error == std::errc{} && stop == end) return out < 0 ? Fault{"negative", "negative arrival time"} : Fault{};
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) {
    return {"bad-timestamp", fmt::format("expected a number, got {}", quoted(text))};
  }
  if (error == std::errc::result_out_of_range) {
    return {"out-of-range", fmt::format("arrival time {} is beyond the representable range", quoted(text))};
  }
  if (!std::isfinite(value)) return {"bad-timestamp", fmt::format("timestamp {} is not finite", quoted(text))};
  return nanos_of(value, unit, out);
}

Fault parse_date_time(std::string_view text, DateTime& out) {
  constexpr std::size_t kUpToSeconds = 19;
  if (text.empty()) return {"bad-timestamp", "empty timestamp"};
  const auto wrong_form = [&] { return Fault{"bad-timestamp", fmt::format("{}: {}", quoted(text), kDateForm)}; };
  if (text.size() < kUpToSeconds || text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') ||
      text[13] != ':' || text[16] != ':') {
    return wrong_form();
  }
  const int century = two_digits(text, 0), years = two_digits(text, 2);
  const Clock c{century * 100 + years, two_digits(text, 5),  two_digits(text, 8),
                two_digits(text, 11),  two_digits(text, 14), two_digits(text, 17)};
  if (century < 0 || years < 0 || c.month < 0 || c.day < 0 || c.hour < 0 || c.minute < 0 || c.second < 0)
    return wrong_form();
  if (Fault fault = check_ranges(c)) return fault;
  const std::int64_t seconds =
      ((days_since_1970(c.year, c.month, c.day) * 24 + c.hour) * 60 + c.minute) * 60 + c.second;
  Nanos fraction = 0;
  std::string_view rest = text.substr(kUpToSeconds);
  if (Fault fault = take_fraction(rest, fraction)) return fault;
  out = {seconds * 1'000'000'000 + fraction, false};
  return take_zone(rest, out);
}

}  // namespace plimsoll::traces

// SPDX-License-Identifier: Apache-2.0
// One cell of a result table, and its text in CSV, JSON and the terminal. Numbers are written in the shortest form that
// reads back to the same value, independent of the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plimsoll::study {

/// monostate: blank, not applicable.
using Cell = std::variant<std::monostate, std::string, double, std::int64_t, bool>;

/// Returns a blank cell for nullopt and NaN.
[[nodiscard]] Cell number_cell(std::optional<double> value);

/// Formats a number in the shortest form that reads back to the same value.
[[nodiscard]] std::string number_text(double value);
/// Formats a number for display: grouped thousands, at most `digits` digits, no exponent between 1e-6 and 1e12.
[[nodiscard]] std::string reader_number(double value, int digits = 4);
/// Formats a cell as unquoted text: "", "12.5", "true".
[[nodiscard]] std::string plain_text(const Cell& cell);
/// plain_text(), quoted as RFC 4180 requires if it contains a comma, a quote or a line break.
[[nodiscard]] std::string csv_text(const Cell& cell);
/// Formats a cell as a JSON value; a blank cell is null.
[[nodiscard]] std::string json_text(const Cell& cell);
/// Formats a JSON string with its quotes; bytes that are not valid UTF-8 become U+FFFD.
[[nodiscard]] std::string json_quoted(std::string_view text);

[[nodiscard]] std::string csv_line(const std::vector<Cell>& cells);
[[nodiscard]] std::string csv_header(const std::vector<std::string>& columns);

}  // namespace plimsoll::study

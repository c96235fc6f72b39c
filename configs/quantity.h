// SPDX-License-Identifier: Apache-2.0
// Numbers with units as people write them in YAML: "80 GiB", "1.555 TB/s", "500 ms", "4 /s". A number with a dimension
// needs a unit; GB = 1e9, GiB = 2^30. Independent of the locale.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::configs {

/// What a number measures, and thus which units it may have.
enum class Dimension { none, seconds, bytes, bytes_per_second, flops_per_second, per_second, usd };

/// The value in the base unit, or the reason why there is none (a phrase that follows "found 'TEXT': ").
struct Parsed {
  std::optional<double> value;
  std::string problem;
};
/// Parses a number with a unit of this dimension. The whole text must be one quantity.
[[nodiscard]] Parsed parse_quantity(std::string_view text, Dimension dimension);

/// Parses a finite decimal number; the whole text must be one.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// Returns the candidate with the smallest edit distance if it is close enough to be meant; else an empty text.
[[nodiscard]] std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates);
[[nodiscard]] std::string_view nearest(std::string_view text, const std::vector<std::string>& candidates);

/// Returns the shortest text that reads back as this number.
[[nodiscard]] std::string number_text(double value);

}  // namespace plimsoll::configs

// SPDX-License-Identifier: Apache-2.0
// Numbers with units as people write them in YAML: "80 GiB", "1.555 TB/s", "500 ms", "4 /s". A number of a dimension
// needs a unit; GB = 1e9, GiB = 2^30. Locale-independent.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::configs {

enum class Dimension { none, seconds, bytes, bytes_per_second, flops_per_second, per_second, usd };

/// The value in the base unit, or why there is none (a phrase that goes after "found 'TEXT': ").
struct Parsed {
  std::optional<double> value;
  std::string problem;
};
[[nodiscard]] Parsed parse_quantity(std::string_view text, Dimension dimension);

/// A finite decimal number that takes up the whole text.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// The candidate with the smallest edit distance, if it is near enough to be meant; empty otherwise.
[[nodiscard]] std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates);
[[nodiscard]] std::string_view nearest(std::string_view text, const std::vector<std::string>& candidates);

/// The shortest text that reads back as this number.
[[nodiscard]] std::string number_text(double value);

}  // namespace plimsoll::configs

// SPDX-License-Identifier: Apache-2.0
#include "configs/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "configs/text_file.h"

namespace plimsoll::configs {

namespace {

struct Unit {
  Dimension dimension;
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

constexpr std::array kUnits = {
    Unit{Dimension::seconds, "\u00b5s", 1e-6},
    Unit{Dimension::seconds, "\u03bcs", 1e-6},  // micro sign, Greek mu
    Unit{Dimension::seconds, "ns", 1e-9},
    Unit{Dimension::seconds, "us", 1e-6},
    Unit{Dimension::seconds, "ms", 1e-3},
    Unit{Dimension::seconds, "s", 1},
    Unit{Dimension::seconds, "sec", 1},
    Unit{Dimension::seconds, "min", 60},
    Unit{Dimension::seconds, "h", 3600},
    Unit{Dimension::seconds, "d", 86400},
    Unit{Dimension::bytes, "B", 1},
    Unit{Dimension::bytes, "kB", 1e3},
    Unit{Dimension::bytes, "KB", 1e3},
    Unit{Dimension::bytes, "MB", 1e6},
    Unit{Dimension::bytes, "GB", 1e9},
    Unit{Dimension::bytes, "TB", 1e12},
    Unit{Dimension::bytes, "KiB", kKi},
    Unit{Dimension::bytes, "MiB", kMi},
    Unit{Dimension::bytes, "GiB", kGi},
    Unit{Dimension::bytes, "TiB", kTi},
    Unit{Dimension::bytes_per_second, "B/s", 1},
    Unit{Dimension::bytes_per_second, "kB/s", 1e3},
    Unit{Dimension::bytes_per_second, "MB/s", 1e6},
    Unit{Dimension::bytes_per_second, "GB/s", 1e9},
    Unit{Dimension::bytes_per_second, "TB/s", 1e12},
    Unit{Dimension::bytes_per_second, "MiB/s", kMi},
    Unit{Dimension::bytes_per_second, "GiB/s", kGi},
    Unit{Dimension::bytes_per_second, "TiB/s", kTi},
    Unit{Dimension::flops_per_second, "FLOP/s", 1},
    Unit{Dimension::flops_per_second, "MFLOP/s", 1e6},
    Unit{Dimension::flops_per_second, "GFLOP/s", 1e9},
    Unit{Dimension::flops_per_second, "TFLOP/s", 1e12},
    Unit{Dimension::flops_per_second, "PFLOP/s", 1e15},
    Unit{Dimension::flops_per_second, "TOP/s", 1e12},
    Unit{Dimension::per_second, "/s", 1},
    Unit{Dimension::per_second, "req/s", 1},
    Unit{Dimension::per_second, "/min", 1.0 / 60},
    Unit{Dimension::per_second, "req/min", 1.0 / 60},
    Unit{Dimension::per_second, "/h", 1.0 / 3600},
    Unit{Dimension::usd, "USD", 1},
    Unit{Dimension::usd, "USD/h", 1},
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// from_chars accepts no plus sign; "+-1" is not a number.
std::string_view without_plus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

std::string allowed_units(Dimension dimension) {
  std::string names;
  for (const Unit& unit : kUnits) {
    // Messages list each unit once, in the spelling that any keyboard can type.
    if (unit.dimension != dimension || !is_ascii(unit.name) || unit.name == "KB") continue;
    if (!names.empty()) names += ", ";
    names += unit.name;
  }
  return names;
}

std::string_view example_unit(Dimension dimension) {
  switch (dimension) {
    case Dimension::none: return "";
    case Dimension::seconds: return "s";
    case Dimension::bytes: return "GiB";
    case Dimension::bytes_per_second: return "GB/s";
    case Dimension::flops_per_second: return "TFLOP/s";
    case Dimension::per_second: return "/s";
    case Dimension::usd: return "USD";
  }
  return "";
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Levenshtein distance with a single row of the matrix.
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

// from_chars reads the same in every locale, and all of the text must be a number.
std::optional<double> parse_number(std::string_view text) {
  text = without_plus(trim(text));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

Parsed parse_quantity(std::string_view text, Dimension dimension) {
  text = without_plus(trim(text));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return {{}, "the number is out of range"};
  if (error != std::errc{})
    return {{}, fmt::format("expected a number and a unit, as in '1 {}'", example_unit(dimension))};
  if (!std::isfinite(value)) return {{}, "expected a finite number"};
  const std::string_view unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  if (unit.empty())
    return {{},
            fmt::format("a unit is missing; write for example '{} {}' (units: {})", shortened(text, 20),
                        example_unit(dimension), allowed_units(dimension))};
  for (const Unit& known : kUnits) {
    if (known.dimension != dimension || known.name != unit) continue;
    if (!std::isfinite(value * known.factor)) return {{}, "the number is out of range"};
    return {value * known.factor, {}};
  }
  return {{}, fmt::format("unknown unit '{}'; allowed: {}", shortened(unit, 20), allowed_units(dimension))};
}

std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates) {
  // Longer texts are not misspelt names, and the distance takes quadratic time.
  if (text.size() > 64) return {};
  std::string_view best;
  // Up to two edits, or a third of a longer text, count as a misspelling.
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(text, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string_view nearest(std::string_view text, const std::vector<std::string>& candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  return nearest(text, std::span<const std::string_view>(views));
}

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc{} ? std::string(buffer.data(), end) : std::string("nan");
}

}  // namespace plimsoll::configs

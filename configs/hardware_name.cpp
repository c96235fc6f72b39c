// SPDX-License-Identifier: Apache-2.0
#include "configs/hardware_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace plimsoll::configs {
namespace {

constexpr std::array<std::string_view, 4> kCrosses = {"x", "X", "×", "*"};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Parses the whole text as an integer of at least 1.
std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return {};
  return value;
}

// Parses "8xH100": digits, a cross, a name.
std::optional<AcceleratorCount> count_first(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto count = whole(text.substr(0, digits));
  const std::string_view rest = trimmed(text.substr(digits));
  for (const std::string_view cross : kCrosses) {
    const std::string_view name = rest.starts_with(cross) ? trimmed(rest.substr(cross.size())) : std::string_view();
    if (count && !name.empty()) return AcceleratorCount{std::string(name), *count};
  }
  return {};
}

// Parses "h100 x 8": a name, a cross, digits. An x directly after a letter belongs to the name ("RTX 4090").
std::optional<AcceleratorCount> count_last(std::string_view text) {
  const std::size_t before = text.find_last_not_of("0123456789");
  if (before == std::string_view::npos) return {};
  const auto count = whole(text.substr(before + 1));
  const std::string_view rest = trimmed(text.substr(0, before + 1));
  for (const std::string_view cross : kCrosses) {
    if (!count || !rest.ends_with(cross)) continue;
    const std::string_view before_cross = rest.substr(0, rest.size() - cross.size()), name = trimmed(before_cross);
    const bool in_word = !before_cross.empty() && std::isalpha(static_cast<unsigned char>(before_cross.back())) != 0;
    if (!name.empty() && !in_word) return AcceleratorCount{std::string(name), *count};
  }
  return {};
}

}  // namespace

std::string AcceleratorCount::to_text() const {
  return fmt::format("{{accelerator: {}, count: {}}}", accelerator, count);
}

std::optional<AcceleratorCount> parse_accelerator_count(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return {};
  if (auto found = count_first(text)) return found;
  if (auto found = count_last(text)) return found;
  return AcceleratorCount{std::string(text), 1};
}

std::optional<AcceleratorCount> find_accelerators(const Catalogue& catalogue, const std::string& text) {
  if (text.find('/') != std::string::npos || canonical_name(text) == "this-machine" || catalogue.has_instance(text))
    return {};
  auto found =
      catalogue.has_accelerator(text) ? std::optional(AcceleratorCount{text, 1}) : parse_accelerator_count(text);
  if (!found || !catalogue.has_accelerator(found->accelerator)) return {};
  found->accelerator = catalogue.accelerator(found->accelerator)->id;
  return found;
}

}  // namespace plimsoll::configs

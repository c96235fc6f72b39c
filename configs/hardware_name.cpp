// SPDX-License-Identifier: Apache-2.0
#include "configs/hardware_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

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

/// Returns the runs of letters and digits, in lower case.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      words.back() += static_cast<char>(std::tolower(byte));
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// Returns true for words such as "80gb".
bool is_memory(const std::string& word) {
  return word.size() > 2 && word.ends_with("gb") && std::isdigit(static_cast<unsigned char>(word[0])) != 0;
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

// Every word of the id counts: rtx-3090 is not RTX 4090. Descriptions may omit the obvious: the form SXM, or the memory
// of a device that has one size ("NVIDIA H200", "NVIDIA H100 80GB HBM3").
bool is_same_device(const std::string& description, const std::string& id) {
  const std::vector<std::string> found = words_of(description);
  const auto has = [&](auto test) { return std::any_of(found.begin(), found.end(), test); };
  const auto agrees = [&](const std::string& word) {
    const auto is_word = [&](const std::string& w) { return w == word; };
    if (word.starts_with("sxm")) return !has([](const std::string& w) { return w == "pcie" || w == "nvl"; });
    if (is_memory(word)) return has(is_word) || !has(is_memory);
    return has(is_word);
  };
  const std::vector<std::string> wanted = words_of(id);
  const bool other_form = has([](const std::string& w) { return w == "nvl"; }) &&
                          std::find(wanted.begin(), wanted.end(), "nvl") == wanted.end();
  return !wanted.empty() && !other_form && std::all_of(wanted.begin(), wanted.end(), agrees);
}

}  // namespace plimsoll::configs

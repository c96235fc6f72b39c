// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include "text/json_fields.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

struct CharacterRange {
  char32_t first, last;
};
// Characters that normal form C keeps, and that never combine with the character before them (Unicode Character
// Database: no canonical decomposition, combining class 0, not the second part of a composition). Most text consists of
// them.
constexpr auto kInert = std::to_array<CharacterRange>({{0x0, 0x2FF},
                                                       {0x388, 0x482},
                                                       {0x2002, 0x2027},
                                                       {0x2E00, 0x3029},
                                                       {0x309B, 0xA66E},
                                                       {0xABEE, 0xD7FF},
                                                       {0xE000, 0xF8FF},
                                                       {0xFF00, 0xFFFF},
                                                       {0x1F000, 0x1FAFF},
                                                       {0x20000, 0x2F7FF}});

bool is_composed(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0xCC) {  // below U+0300
      at += utf8_length(text[at]);
      continue;
    }
    const char32_t c = read_code_point(text, at);
    const bool inert =
        std::ranges::any_of(kInert, [c](const CharacterRange& range) { return c >= range.first && c <= range.last; });
    if (!inert) return false;
  }
  return true;
}

// pattern: {"String": …} or {"Regex": …}
std::variant<std::string, Regex> read_pattern(const Json& json, const std::string& place) {
  const Json& pattern = field(json, "pattern");
  if (field(pattern, "Regex").is_string()) return Regex(text_field(pattern, "Regex", place));
  std::string text = text_field(pattern, "String", place + ".pattern");
  if (text.empty()) throw InputError(place + ".pattern: an empty text cannot be replaced");
  return text;
}

}  // namespace

Replacement::Replacement(const Json& json, const std::string& place)
    : pattern_(read_pattern(json, place)), content_(text_field(json, "content", place)) {}

void Replacement::apply(std::string& text, std::string& scratch) const {
  scratch.clear();
  std::size_t done = 0;
  if (const std::string* const plain = plain_pattern()) {
    std::size_t found = text.find(*plain);
    if (found == std::string::npos) return;
    for (; found != std::string::npos; found = text.find(*plain, done)) {
      scratch.append(text, done, found - done).append(content_);
      done = found + plain->size();
    }
  } else {
    Regex::Walk walk(std::get<Regex>(pattern_), text);
    for (Regex::Match match; walk.next(match); done = match.end)
      scratch.append(text, done, match.begin - done).append(content_);
  }
  scratch.append(text, done);
  text.swap(scratch);
}

void compose(std::string& text) {
  if (is_composed(text)) return;
  utf8proc_uint8_t* out = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &out, options);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size >= 0) text.assign(reinterpret_cast<const char*>(out), static_cast<std::size_t>(size));
  std::free(out);
}

Normalizer::Normalizer(const Json& json) {
  if (!json.is_null()) add(json);
}

void Normalizer::add(const Json& json) {
  const std::string type = type_of(json, "normalizer");
  if (type == "Sequence")
    for_items(json, "normalizers", "normalizer", [this](const Json& item) { add(item); });
  else if (type == "NFC")
    stages_.emplace_back(Compose{});
  else if (type == "Prepend")
    stages_.emplace_back(Prepend{text_field(json, "prepend", "normalizer Prepend")});
  else if (type == "Replace")
    stages_.emplace_back(Replacement(json, "normalizer Replace"));
  else
    throw InputError(
        fmt::format("the normalizer {} is not supported; allowed: NFC, Prepend, Replace and Sequence", type));
}

void Normalizer::apply(std::string& text) const {
  std::string scratch;
  for (const auto& stage : stages_) {
    if (text.empty()) return;
    if (std::holds_alternative<Compose>(stage))
      compose(text);
    else if (const auto* prepend = std::get_if<Prepend>(&stage))
      text.insert(0, prepend->prefix);
    else
      std::get<Replacement>(stage).apply(text, scratch);
  }
}

}  // namespace plimsoll::text

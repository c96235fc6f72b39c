// SPDX-License-Identifier: Apache-2.0
#include "study/deploy/yaml_text.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace plimsoll::study::deploy {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns whether YAML 1.1 or 1.2 would read the word as another type.
bool is_reserved(std::string_view text) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end();
}

// Only text that begins with a letter, "/" or an option's dashes is safe without quotes.
bool is_plain(const std::string& text) {
  if (text.empty() || is_reserved(text)) return false;
  const bool option = text.size() > 2 && text.starts_with("--") && is_letter(text[2]);
  if (!option && !is_letter(text[0]) && text[0] != '/') return false;
  if (text.back() == ':') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || std::string_view("_./@%+=:-").find(c) != std::string_view::npos;
  });
}

bool is_block(const std::string& text) {
  return text.size() > 1 && text.back() == '\n' && text.front() != ' ' && text.front() != '\n' &&
         text.find('\r') == std::string::npos && text.find('\t') == std::string::npos &&
         text.find("\n\n", text.size() - 2) == std::string::npos;
}

std::string scalar_text(const Tree& value, int indent) {
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (is_plain(text)) return text;
  if (!is_block(text)) return value.dump(-1, ' ', false, Tree::error_handler_t::replace);
  std::string block = "|";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    block += '\n';
    if (end > begin) block += std::string(static_cast<std::size_t>(indent), ' ') + text.substr(begin, end - begin);
    begin = end + 1;
  }
  return block;
}

std::string key_text(const std::string& key) { return is_plain(key) ? key : Tree(key).dump(); }

bool is_short(const Tree& value) { return !value.is_structured() || value.empty(); }

void add_lines(const Tree& tree, int indent, bool first_is_placed, std::string& text) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  bool placed = first_is_placed;  // the first line continues "- "
  const auto begin_line = [&] {
    if (!placed) text += margin;
    placed = false;
  };
  if (tree.is_object()) {
    for (const auto& [key, value] : tree.items()) {
      begin_line();
      text += key_text(key) + ':';
      if (is_short(value)) {
        text += ' ' + (value.is_structured() ? value.dump() : scalar_text(value, indent + 2)) + '\n';
      } else {
        text += '\n';
        add_lines(value, indent + 2, false, text);
      }
    }
    return;
  }
  for (const Tree& value : tree) {
    begin_line();
    text += "- ";
    if (is_short(value))
      text += (value.is_structured() ? value.dump() : scalar_text(value, indent + 2)) + '\n';
    else
      add_lines(value, indent + 2, true, text);
  }
}

}  // namespace

std::string yaml_text(const Tree& tree) {
  std::string text;
  if (is_short(tree)) return (tree.is_structured() ? tree.dump() : scalar_text(tree, 2)) + '\n';
  add_lines(tree, 0, false, text);
  return text;
}

std::string yaml_comment(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    std::replace(line.begin(), line.end(), '\r', ' ');
    out += (line.empty() ? "#" : "# " + line) + '\n';
    begin = end + 1;
  }
  return out;
}

}  // namespace plimsoll::study::deploy

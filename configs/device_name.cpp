// SPDX-License-Identifier: Apache-2.0
#include "configs/device_name.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace plimsoll::configs {
namespace {

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

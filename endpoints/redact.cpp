// SPDX-License-Identifier: Apache-2.0
#include "endpoints/redact.h"

#include <algorithm>
#include <unordered_map>

namespace plimsoll::endpoints {
namespace {

constexpr std::size_t kShown = 200, kRead = 4096, kRun = 8;
constexpr std::string_view kStruck = "[...]";

using Marks = std::vector<bool>;

void mark(Marks& marks, std::size_t begin, std::size_t size) {
  std::fill_n(marks.begin() + static_cast<std::ptrdiff_t>(begin), size, true);
}

// The runs of `text` are indexed because it is the shorter of the two; `sent` is then read once.
void mark_sent(std::string_view text, std::string_view sent, Marks& marks) {
  std::unordered_multimap<std::string_view, std::size_t> runs;
  for (std::size_t i = 0; i + kRun <= text.size(); ++i) runs.emplace(text.substr(i, kRun), i);
  for (std::size_t i = 0; i + kRun <= sent.size(); ++i) {
    const auto [first, last] = runs.equal_range(sent.substr(i, kRun));
    for (auto found = first; found != last; ++found) mark(marks, found->second, kRun);
    runs.erase(first, last);
  }
}

void mark_secrets(std::string_view text, const std::vector<std::string>& secrets, Marks& marks) {
  for (const std::string& secret : secrets) {
    if (secret.empty()) continue;
    mark_sent(text, secret, marks);  // also hides parts of a key
    for (std::size_t at = text.find(secret); at != std::string_view::npos; at = text.find(secret, at + 1))
      mark(marks, at, secret.size());
  }
}

// Hides lists of three or more numbers: they may be token ids in another format than was sent.
void mark_lists(std::string_view text, Marks& marks) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t begin = 0, numbers = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool inside = i < text.size() && (is_digit(text[i]) || (numbers > 0 && (text[i] == ',' || text[i] == ' ')));
    if (inside) {
      if (!is_digit(text[i])) continue;
      if (numbers == 0) begin = i;
      if (i == begin || !is_digit(text[i - 1])) ++numbers;
      continue;
    }
    if (numbers >= 3) mark(marks, begin, i - begin);
    numbers = 0;
  }
}

}  // namespace

std::string shown_text(std::string_view text, const std::vector<std::string>& secrets, std::string_view sent) {
  text = text.substr(0, kRead);
  Marks marks(text.size(), false);
  mark_secrets(text, secrets, marks);
  mark_sent(text, sent, marks);
  mark_lists(text, marks);
  std::string shown;
  for (std::size_t i = 0; i < text.size() && shown.size() < kShown; ++i) {
    const char c = text[i];
    if (marks[i]) {
      if (i == 0 || !marks[i - 1]) shown += kStruck;
    } else if (c > 0x20 && c < 0x7F) {
      shown += c;
    } else if (!shown.empty() && shown.back() != ' ') {
      shown += ' ';  // replaces any run of blanks and unprintable characters
    }
  }
  return shown.substr(0, kShown);
}

}  // namespace plimsoll::endpoints

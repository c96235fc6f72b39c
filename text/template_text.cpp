// SPDX-License-Identifier: Apache-2.0
#include "text/template_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace plimsoll::text {
namespace {

constexpr char32_t kSigma = U'\u03A3', kFinalSigma = U'\u03C2', kDottedI = U'\u0130';

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
char32_t single_lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
char32_t single_upper(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }
char32_t single_title(char32_t c) { return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))); }

bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || category(c) == UTF8PROC_CATEGORY_LT; }
// Signs within words, such as apostrophes, which do not end a word for the final sigma.
bool is_case_ignorable(char32_t c) {
  constexpr auto kSigns = std::to_array<char32_t>(
      {U'\'', U'.', U':', U'\u00B7', U'\u0387', U'\u055F', U'\u05F4', U'\u2018', U'\u2019', U'\u2024', U'\u2027'});
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return std::ranges::find(kSigns, c) != kSigns.end();
  }
}

// The characters that a lower-case character becomes in upper case if they are several: those of its case folding, each
// in upper case. So \u00DF becomes SS. Returns how many there are.
std::size_t expanded(char32_t c, std::array<utf8proc_int32_t, 8>& out) {
  if (is_upper(c)) return 1;
  int last = 0;
  const utf8proc_ssize_t size =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), out.data(), out.size(), UTF8PROC_CASEFOLD, &last);
  return size > 0 ? std::min(static_cast<std::size_t>(size), out.size()) : 1;
}

void append_upper(char32_t c, bool title, std::string& out) {
  std::array<utf8proc_int32_t, 8> parts{};
  const std::size_t size = category(c) == UTF8PROC_CATEGORY_LT && title ? 1 : expanded(c, parts);
  // Letters with an iota below have a title case of their own.
  if (size < 2 || (title && category(single_title(c)) == UTF8PROC_CATEGORY_LT))
    return append_utf8(out, title ? single_title(c) : single_upper(c));
  bool raised = false;  // in a title the first letter is raised
  for (std::size_t i = 0; i < size; ++i) {
    const auto part = static_cast<char32_t>(parts[i]);
    append_utf8(out, title && raised ? part : single_upper(part));
    raised = raised || is_cased(part);
  }
}

// Python writes a sigma that ends a word in its final form.
bool ends_word(std::string_view text, std::size_t before, std::size_t after) {
  bool cased = false;
  for (std::size_t at = 0; at < before;) {
    const char32_t c = read_code_point(text, at);
    if (!is_case_ignorable(c)) cased = is_cased(c);
  }
  while (cased && after < text.size()) {
    const char32_t c = read_code_point(text, after);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return cased;
}

void append_lower(std::string_view text, std::size_t at, std::string& out) {
  const std::size_t begin = at;
  const char32_t c = read_code_point(text, at);
  if (c == kDottedI)
    out += "i\u0307";
  else
    append_utf8(out, c == kSigma && ends_word(text, begin, at) ? kFinalSigma : single_lower(c));
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return c == U' ';
    default: return true;
  }
}

bool is_alphabetic(char32_t c) { return category(c) >= UTF8PROC_CATEGORY_LU && category(c) <= UTF8PROC_CATEGORY_LO; }
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit_sign(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089);
}
bool is_numeric(char32_t c) {
  return is_digit_sign(c) || category(c) == UTF8PROC_CATEGORY_NL || category(c) == UTF8PROC_CATEGORY_NO;
}

template <class Is>
bool all_of(std::string_view text, const Is& is) {
  for (std::size_t at = 0; at < text.size();)
    if (!is(read_code_point(text, at))) return false;
  return !text.empty();
}

// Whether the text has characters with cases, all of the one kind.
bool has_case(std::string_view text, bool upper) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = read_code_point(text, at);
    if (is_cased(c) && is_upper(c) != upper) return false;
    if (category(c) == UTF8PROC_CATEGORY_LT) return false;
    found = found || is_cased(c);
  }
  return found;
}

}  // namespace

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min(utf8_length(text[at]), text.size() - at);
    out.push_back(text.substr(at, length));
    at += length;
  }
  return out;
}

// Python also takes the four separators of ASCII.
bool is_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::size_t next_space(std::string_view text, std::size_t at) {
  for (std::size_t next = at; at < text.size(); at = next)
    if (is_space(read_code_point(text, next))) return at;
  return text.size();
}

std::size_t after_spaces(std::string_view text, std::size_t at) {
  for (std::size_t next = at; at < text.size(); at = next)
    if (!is_space(read_code_point(text, next))) return at;
  return text.size();
}

std::string_view left_stripped(std::string_view text) { return text.substr(after_spaces(text, 0)); }

std::string_view right_stripped(std::string_view text) {
  while (!text.empty()) {
    const std::size_t last = last_character(text);
    std::size_t at = last;
    if (!is_space(read_code_point(text, at))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string upper_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) append_upper(read_code_point(text, at), false, out);
  return out;
}

std::string lower_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) append_lower(text, at, out);
  return out;
}

std::string capitalized(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    std::size_t next = at;
    if (at == 0)
      append_upper(read_code_point(text, next), true, out);
    else
      append_lower(text, at, out);
  }
  return out;
}

std::string titled(std::string_view text) {
  std::string out;
  bool inside = false;  // a word
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = read_code_point(text, at);
    if (inside)
      append_lower(text, begin, out);
    else
      append_upper(c, true, out);
    inside = is_cased(c);
  }
  return out;
}

bool consists_of(std::string_view text, Letters letters) {
  switch (letters) {
    case Letters::alphabetic: return all_of(text, is_alphabetic);
    case Letters::alphanumeric: return all_of(text, [](char32_t c) { return is_alphabetic(c) || is_numeric(c); });
    case Letters::decimal: return all_of(text, is_decimal);
    case Letters::digits: return all_of(text, is_digit_sign);
    case Letters::spaces: return all_of(text, is_space);
    case Letters::lower: return has_case(text, false);
    case Letters::upper: return has_case(text, true);
  }
  return false;
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    std::size_t end = at;
    bool ended = false;
    while (at < text.size() && !ended) {
      end = at;
      ended = is_line_end(read_code_point(text, at));
    }
    if (!ended) end = at;
    if (ended && text[end] == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
  }
  return out;
}

std::string python_repr(std::string_view text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = read_code_point(text, at);
    if (c == static_cast<char32_t>(quote) || c == U'\\')
      out += {'\\', static_cast<char>(c)};
    else if (c == U'\n')
      out += "\\n";
    else if (c == U'\r')
      out += "\\r";
    else if (c == U'\t')
      out += "\\t";
    else if (is_printable(c))
      out += text.substr(begin, at - begin);
    else if (c < 0x100)
      out += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c));
    else if (c < 0x10000)
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    else
      out += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(c));
  }
  return out + quote;
}

}  // namespace plimsoll::text

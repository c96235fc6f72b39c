// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "model/error.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

struct NewRange {
  char32_t first, last;
  std::string_view category;
};
// Assigned in Unicode 15.0, 15.1 and 16.0 (Unicode Character Database, UnicodeData.txt), with the general category.
constexpr auto kNewRanges = std::to_array<NewRange>({
    {0x897, 0x897, "Mn"},     {0xCF3, 0xCF3, "Mc"},     {0xECE, 0xECE, "Mn"},     {0x1B4E, 0x1B4F, "Po"},
    {0x1B7F, 0x1B7F, "Po"},   {0x1C89, 0x1C89, "Lu"},   {0x1C8A, 0x1C8A, "Ll"},   {0x2427, 0x2429, "So"},
    {0x2FFC, 0x2FFF, "So"},   {0x31E4, 0x31E5, "So"},   {0x31EF, 0x31EF, "So"},   {0xA7CB, 0xA7CC, "Lu"},
    {0xA7CD, 0xA7CD, "Ll"},   {0xA7DA, 0xA7DA, "Lu"},   {0xA7DB, 0xA7DB, "Ll"},   {0xA7DC, 0xA7DC, "Lu"},
    {0x105C0, 0x105F3, "Lo"}, {0x10D40, 0x10D49, "Nd"}, {0x10D4A, 0x10D4D, "Lo"}, {0x10D4E, 0x10D4E, "Lm"},
    {0x10D4F, 0x10D4F, "Lo"}, {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "Mn"}, {0x10D6E, 0x10D6E, "Pd"},
    {0x10D6F, 0x10D6F, "Lm"}, {0x10D70, 0x10D85, "Ll"}, {0x10D8E, 0x10D8F, "Sm"}, {0x10EC2, 0x10EC4, "Lo"},
    {0x10EFC, 0x10EFF, "Mn"}, {0x1123F, 0x11240, "Lo"}, {0x11241, 0x11241, "Mn"}, {0x11380, 0x11389, "Lo"},
    {0x1138B, 0x1138B, "Lo"}, {0x1138E, 0x1138E, "Lo"}, {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"},
    {0x113B8, 0x113BA, "Mc"}, {0x113BB, 0x113C0, "Mn"}, {0x113C2, 0x113C2, "Mc"}, {0x113C5, 0x113C5, "Mc"},
    {0x113C7, 0x113CA, "Mc"}, {0x113CC, 0x113CD, "Mc"}, {0x113CE, 0x113CE, "Mn"}, {0x113CF, 0x113CF, "Mc"},
    {0x113D0, 0x113D0, "Mn"}, {0x113D1, 0x113D1, "Lo"}, {0x113D2, 0x113D2, "Mn"}, {0x113D3, 0x113D3, "Lo"},
    {0x113D4, 0x113D5, "Po"}, {0x113D7, 0x113D8, "Po"}, {0x113E1, 0x113E2, "Mn"}, {0x116D0, 0x116E3, "Nd"},
    {0x11B00, 0x11B09, "Po"}, {0x11BC0, 0x11BE0, "Lo"}, {0x11BE1, 0x11BE1, "Po"}, {0x11BF0, 0x11BF9, "Nd"},
    {0x11F00, 0x11F01, "Mn"}, {0x11F02, 0x11F02, "Lo"}, {0x11F03, 0x11F03, "Mc"}, {0x11F04, 0x11F10, "Lo"},
    {0x11F12, 0x11F33, "Lo"}, {0x11F34, 0x11F35, "Mc"}, {0x11F36, 0x11F3A, "Mn"}, {0x11F3E, 0x11F3F, "Mc"},
    {0x11F40, 0x11F40, "Mn"}, {0x11F41, 0x11F41, "Mc"}, {0x11F42, 0x11F42, "Mn"}, {0x11F43, 0x11F4F, "Po"},
    {0x11F50, 0x11F59, "Nd"}, {0x11F5A, 0x11F5A, "Mn"}, {0x1342F, 0x1342F, "Lo"}, {0x13439, 0x1343F, "Cf"},
    {0x13440, 0x13440, "Mn"}, {0x13441, 0x13446, "Lo"}, {0x13447, 0x13455, "Mn"}, {0x13460, 0x143FA, "Lo"},
    {0x16100, 0x1611D, "Lo"}, {0x1611E, 0x16129, "Mn"}, {0x1612A, 0x1612C, "Mc"}, {0x1612D, 0x1612F, "Mn"},
    {0x16130, 0x16139, "Nd"}, {0x16D40, 0x16D42, "Lm"}, {0x16D43, 0x16D6A, "Lo"}, {0x16D6B, 0x16D6C, "Lm"},
    {0x16D6D, 0x16D6F, "Po"}, {0x16D70, 0x16D79, "Nd"}, {0x18CFF, 0x18CFF, "Lo"}, {0x1B132, 0x1B132, "Lo"},
    {0x1B155, 0x1B155, "Lo"}, {0x1CC00, 0x1CCEF, "So"}, {0x1CCF0, 0x1CCF9, "Nd"}, {0x1CD00, 0x1CEB3, "So"},
    {0x1D2C0, 0x1D2D3, "No"}, {0x1DF25, 0x1DF2A, "Ll"}, {0x1E030, 0x1E06D, "Lm"}, {0x1E08F, 0x1E08F, "Mn"},
    {0x1E4D0, 0x1E4EA, "Lo"}, {0x1E4EB, 0x1E4EB, "Lm"}, {0x1E4EC, 0x1E4EF, "Mn"}, {0x1E4F0, 0x1E4F9, "Nd"},
    {0x1E5D0, 0x1E5ED, "Lo"}, {0x1E5EE, 0x1E5EF, "Mn"}, {0x1E5F0, 0x1E5F0, "Lo"}, {0x1E5F1, 0x1E5FA, "Nd"},
    {0x1E5FF, 0x1E5FF, "Po"}, {0x1F6DC, 0x1F6DC, "So"}, {0x1F774, 0x1F776, "So"}, {0x1F77B, 0x1F77F, "So"},
    {0x1F7D9, 0x1F7D9, "So"}, {0x1F8B2, 0x1F8BB, "So"}, {0x1F8C0, 0x1F8C1, "So"}, {0x1FA75, 0x1FA77, "So"},
    {0x1FA87, 0x1FA89, "So"}, {0x1FA8F, 0x1FA8F, "So"}, {0x1FAAD, 0x1FAAF, "So"}, {0x1FABB, 0x1FABF, "So"},
    {0x1FAC6, 0x1FAC6, "So"}, {0x1FACE, 0x1FACF, "So"}, {0x1FADA, 0x1FADC, "So"}, {0x1FADF, 0x1FADF, "So"},
    {0x1FAE8, 0x1FAE9, "So"}, {0x1FAF7, 0x1FAF8, "So"}, {0x1FBCB, 0x1FBEF, "So"}, {0x2B739, 0x2B739, "Lo"},
    {0x2EBF0, 0x2EE5D, "Lo"}, {0x31350, 0x323AF, "Lo"},
});
// Of these, the ideographs (Scripts.txt).
constexpr auto kNewHan =
    std::to_array<NewRange>({{0x2B739, 0x2B739, "Lo"}, {0x2EBF0, 0x2EE5D, "Lo"}, {0x31350, 0x323AF, "Lo"}});

constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

// Long names of general categories, which PCRE2 does not know.
struct LongName {
  std::string_view name, category;
};
constexpr auto kLongNames = std::to_array<LongName>({{"letter", "L"},
                                                     {"mark", "M"},
                                                     {"number", "N"},
                                                     {"punctuation", "P"},
                                                     {"punct", "P"},
                                                     {"symbol", "S"},
                                                     {"separator", "Z"},
                                                     {"other", "C"},
                                                     {"uppercaseletter", "Lu"},
                                                     {"lowercaseletter", "Ll"},
                                                     {"titlecaseletter", "Lt"},
                                                     {"modifierletter", "Lm"},
                                                     {"otherletter", "Lo"},
                                                     {"nonspacingmark", "Mn"},
                                                     {"spacingmark", "Mc"},
                                                     {"enclosingmark", "Me"},
                                                     {"decimalnumber", "Nd"},
                                                     {"letternumber", "Nl"},
                                                     {"othernumber", "No"},
                                                     {"digit", "Nd"}});
constexpr std::array<std::string_view, 8> kBinaryNames = {"alphabetic", "uppercase",   "lowercase", "whitespace",
                                                          "emoji",      "ideographic", "any",       "ascii"};

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_' && c != ' ' && c != '-') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  return out;
}

std::string range_text(const NewRange& range) {
  return range.first == range.last ? fmt::format("\\x{{{:x}}}", static_cast<std::uint32_t>(range.first))
                                   : fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<std::uint32_t>(range.first),
                                                 static_cast<std::uint32_t>(range.last));
}

class Translator {
 public:
  Translator(const std::string& pattern, NewerCharacters newer) : in_(pattern), newer_(newer) {}

  std::string run() {
    while (at_ < in_.size()) {
      if (in_[at_] == '\\')
        escape();
      else if (in_class_)
        class_character();
      else
        plain_character();
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    throw InputError(fmt::format("the regular expression '{}' contains {}, which is not supported", in_, construct));
  }
  [[nodiscard]] bool ahead(std::string_view text) const { return in_.compare(at_, text.size(), text) == 0; }
  void copy(std::size_t count) {
    out_.append(in_, at_, count);
    at_ += count;
  }

  void plain_character() {
    if (in_[at_] == '[') return open_class();
    if (ahead("}+")) refuse("a '+' after a counted repetition");
    if (ahead("(?") && at_ + 2 < in_.size()) check_group();
    copy(1);
  }

  // In Ruby's syntax (?m) makes the dot match newlines.
  void check_group() const {
    const std::size_t end = in_.find_first_of(":)", at_);
    const std::string_view options = std::string_view(in_).substr(at_ + 2, end - at_ - 2);
    const bool all_letters = std::ranges::all_of(options, [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; });
    if (all_letters && options.find('m') != std::string_view::npos) refuse("the option 'm'");
    if (options.starts_with('~')) refuse("an absent operator '(?~'");
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    if (at_ < in_.size() && in_[at_] == '^') copy(1);
    if (at_ < in_.size() && in_[at_] == ']') copy(1);
  }

  void class_character() {
    if (ahead("&&")) refuse("an intersection of classes '&&'");
    if (ahead("[:")) {
      const std::size_t end = in_.find(":]", at_);
      if (end == std::string::npos) refuse("a class within a class");
      return copy(end + 2 - at_);
    }
    if (in_[at_] == '[') refuse("a class within a class");
    if (in_[at_] == ']') in_class_ = false;
    copy(1);
  }

  void escape() {
    if (at_ + 1 >= in_.size()) return copy(1);
    const char kind = in_[at_ + 1];
    switch (kind) {
      case 's': return put(std::string(kSpaces), false);
      case 'S': return put_others(std::string(kSpaces), kNoSpaces);
      case 'w': return put(word(), false);
      case 'W':
        if (in_class_) refuse("'\\W' within a class");
        return put(word(), true);
      case 'd': return put(with_newer("\\p{Nd}", "Nd"), false);
      case 'D': return put_others(with_newer("\\p{Nd}", "Nd"), "\\P{Nd}");
      case 'h': return put("0-9a-fA-F", false);
      case 'H':
        if (in_class_) refuse("'\\H' within a class");
        return put("0-9a-fA-F", true);
      case 'p':
      case 'P': return property(kind == 'P');
      case 'u': return code_point();
      default: return copy(1 + utf8_length(kind));
    }
  }

  // \uHHHH
  void code_point() {
    const std::string digits = in_.substr(at_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      refuse("'\\u' without four hexadecimal digits");
    out_ += "\\x{" + digits + "}";
    at_ += 6;
  }

  void property(bool negated) {
    const std::size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == std::string::npos)
      refuse("'\\p' without a name in braces");
    std::string name = in_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.erase(0, 1);
    }
    const std::string members = members_of(name);
    at_ = end - 1;  // put() moves on by two characters
    if (!negated) return put(members, false);
    if (in_class_ && !members.starts_with("\\p{")) refuse("'\\P{" + name + "}' within a class");
    put_others(members, "\\P" + members.substr(2, members.find('}') - 1));  // PCRE2 takes newer characters as others
  }

  [[nodiscard]] std::string members_of(const std::string& name) const {
    if (name.size() <= 2) return with_newer("\\p{" + name + "}", name);
    const std::string plain = folded(name);
    for (const LongName& known : kLongNames)
      if (known.name == plain) return with_newer(fmt::format("\\p{{{}}}", known.category), known.category);
    if (std::ranges::find(kBinaryNames, plain) != kBinaryNames.end()) return "\\p{" + name + "}";
    std::string out = "\\p{sc:" + name + "}";
    if (plain == "han" && newer_ == NewerCharacters::list)
      for (const NewRange& range : kNewHan) out += range_text(range);
    return out;
  }

  // Letters, marks, decimal digits and connecting punctuation (Unicode Technical Standard 18, Annex C).
  [[nodiscard]] std::string word() const {
    return "\\p{Alphabetic}" + with_newer("\\p{M}", "M") + with_newer("\\p{Nd}", "Nd") + with_newer("\\p{Pc}", "Pc") +
           with_newer("", "L");
  }

  [[nodiscard]] std::string with_newer(std::string members, std::string_view category) const {
    if (newer_ == NewerCharacters::list)
      for (const NewRange& range : kNewRanges)
        if (range.category.starts_with(category)) members += range_text(range);
    return members;
  }

  // Writes the members of a class in place of an escape of two characters.
  void put(const std::string& members, bool negated) {
    out_ += in_class_ ? members : fmt::format("[{}{}]", negated ? "^" : "", members);
    at_ += 2;
  }
  // Writes the complement of a class. Inside another class it must be spelt out as members.
  void put_others(const std::string& members, std::string_view others) {
    if (!in_class_) return put(members, true);
    out_ += others;
    at_ += 2;
  }

  const std::string& in_;
  NewerCharacters newer_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string to_pcre2(const std::string& pattern, NewerCharacters newer) { return Translator(pattern, newer).run(); }

bool has_newer_character(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    // Characters of the first row of the table and later ones begin with these bytes.
    const bool candidate = (lead >= 0xE0 && lead <= 0xE3) || lead == 0xEA || lead >= 0xF0;
    if (!candidate) {
      ++at;  // also over continuation bytes
      continue;
    }
    const char32_t c = read_code_point(text, at);
    const auto* const range = std::ranges::upper_bound(kNewRanges, c, {}, &NewRange::first);
    if (range != kNewRanges.begin() && c <= std::prev(range)->last) return true;
  }
  return false;
}

}  // namespace plimsoll::text

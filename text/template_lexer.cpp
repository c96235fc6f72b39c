// SPDX-License-Identifier: Apache-2.0
#include "text/template_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "model/error.h"
#include "text/template_text.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

constexpr auto kOperators =
    std::to_array<std::string_view>({"//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                     ">",  "=",  "|",  ".",  ",",  ":",  "(", ")", "[", "]", "{", "}"});

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : in_(std::move(source)) {}

  std::vector<LexToken> run() {
    while (at_ < in_.size()) {
      const std::size_t tag = next_tag();
      text_until(tag);
      if (at_ < in_.size()) open_tag();
    }
    add(LexToken::Kind::end, "");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("chat template, line {}: {}", line_, what));
  }
  [[nodiscard]] char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  void add(LexToken::Kind kind, std::string text) { out_.push_back({kind, std::move(text), line_}); }
  void move_to(std::size_t to) {
    to = std::min(to, in_.size());
    line_ += static_cast<std::size_t>(std::count(in_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                 in_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  [[nodiscard]] std::size_t next_tag() const {
    for (std::size_t tag = in_.find('{', at_); tag != std::string::npos; tag = in_.find('{', tag + 1))
      if (tag + 1 < in_.size() && std::string_view("{%#").find(in_[tag + 1]) != std::string_view::npos) return tag;
    return in_.size();
  }

  // Emits the text before a tag. `-` in the tag removes all blanks before it; a tag that begins a line removes the
  // line's indentation, unless it prints or says `+`.
  void text_until(std::size_t tag) {
    std::string text = in_.substr(at_, tag - at_);
    const bool at_line_start = at_ == 0 || in_[at_ - 1] == '\n';
    if (tag < in_.size()) {
      const char sign = tag + 2 < in_.size() ? in_[tag + 2] : '\0';
      if (sign == '-') {
        text = right_stripped(text);
      } else if (sign != '+' && in_[tag + 1] != '{') {
        const std::size_t line = text.rfind('\n') + 1;
        const bool blank = after_spaces(text, line) == text.size();
        if ((line > 0 || at_line_start) && blank) text.erase(line);
      }
    }
    if (!text.empty()) add(LexToken::Kind::text, text);
    move_to(tag);
  }

  void open_tag() {
    const char kind = in_[at_ + 1];
    const bool signed_tag = peek(2) == '-' || peek(2) == '+';
    move_to(at_ + (signed_tag ? 3 : 2));
    if (kind == '#') return skip_comment();
    if (kind == '%' && skip_raw()) return;
    add(kind == '{' ? LexToken::Kind::begin_print : LexToken::Kind::begin_block, "");
    read_expression(kind == '{' ? "}}" : "%}");
    add(kind == '{' ? LexToken::Kind::end_print : LexToken::Kind::end_block, "");
  }

  [[nodiscard]] std::size_t after_blanks(std::size_t at) const { return after_spaces(in_, std::min(at, in_.size())); }

  // Behind a tag: `-` removes all blanks; a block or comment removes one newline, unless it says `+`.
  void after_tag(char sign, bool prints) {
    if (sign == '-')
      move_to(after_blanks(at_));
    else if (sign != '+' && !prints && peek() == '\n')
      move_to(at_ + 1);
  }

  void skip_comment() {
    const std::size_t end = in_.find("#}", at_);
    if (end == std::string::npos) fail("a comment has no end");
    const char sign = end > at_ ? in_[end - 1] : '\0';
    move_to(end + 2);
    after_tag(sign, false);
  }

  // {% raw %} … {% endraw %}
  bool skip_raw() {
    const std::size_t word = after_blanks(at_);
    if (in_.compare(word, 3, "raw") != 0) return false;
    const std::size_t close = after_blanks(word + 3);
    const bool strips = in_.compare(close, 3, "-%}") == 0;
    if (!strips && in_.compare(close, 2, "%}") != 0) return false;
    move_to(strips ? after_blanks(close + 3) : close + 2);
    for (std::size_t end = at_;; ++end) {
      end = in_.find("{%", end);
      if (end == std::string::npos) fail("{% raw %} has no end");
      const bool signed_tag = end + 2 < in_.size() && (in_[end + 2] == '-' || in_[end + 2] == '+');
      const std::size_t name = after_blanks(end + (signed_tag ? 3 : 2));
      if (in_.compare(name, 6, "endraw") != 0) continue;
      const std::size_t closed = after_blanks(name + 6);
      const bool has_sign = closed < in_.size() && (in_[closed] == '-' || in_[closed] == '+');
      if (in_.compare(closed + (has_sign ? 1 : 0), 2, "%}") != 0) continue;
      text_until(end);
      move_to(closed + (has_sign ? 3 : 2));
      after_tag(has_sign ? in_[closed] : '\0', false);
      return true;
    }
  }

  void read_expression(std::string_view close) {
    std::size_t depth = 0;  // of braces, so that a dictionary's end is not the tag's
    for (;;) {
      move_to(after_blanks(at_));
      if (at_ >= in_.size()) fail(fmt::format("a tag has no '{}'", close));
      const bool has_sign = (peek() == '-' || (peek() == '+' && close == "%}")) && in_.compare(at_ + 1, 2, close) == 0;
      if (depth == 0 && (has_sign || in_.compare(at_, 2, close) == 0)) {
        const char sign = has_sign ? peek() : '\0';
        move_to(at_ + (has_sign ? 3 : 2));
        return after_tag(sign, close == "}}");
      }
      if (peek() == '{' || peek() == '(' || peek() == '[') ++depth;
      if ((peek() == '}' || peek() == ')' || peek() == ']') && depth > 0) --depth;
      read_token();
    }
  }

  void read_token() {
    const char c = peek();
    if (is_name_start(c))
      return read_while(LexToken::Kind::name, [](char x) { return is_name_start(x) || is_digit(x); });
    if (is_digit(c)) return read_number();
    if (c == '"' || c == '\'') return read_string(c);
    for (const std::string_view op : kOperators) {
      if (in_.compare(at_, op.size(), op) != 0) continue;
      add(LexToken::Kind::op, std::string(op));
      return move_to(at_ + op.size());
    }
    fail(fmt::format("found '{}'", c));
  }

  template <class Is>
  void read_while(LexToken::Kind kind, const Is& is) {
    std::size_t end = at_;
    while (end < in_.size() && is(in_[end])) ++end;
    add(kind, in_.substr(at_, end - at_));
    move_to(end);
  }

  void read_number() {
    std::size_t end = at_;
    LexToken::Kind kind = LexToken::Kind::integer;
    const auto digits = [&] {
      while (end < in_.size() && (is_digit(in_[end]) || in_[end] == '_')) ++end;
    };
    digits();
    if (end + 1 < in_.size() && in_[end] == '.' && is_digit(in_[end + 1])) {
      kind = LexToken::Kind::number;
      ++end;
      digits();
    }
    if (end < in_.size() && (in_[end] == 'e' || in_[end] == 'E')) {
      const std::size_t sign = end + 1 < in_.size() && (in_[end + 1] == '-' || in_[end + 1] == '+') ? 1 : 0;
      if (end + 1 + sign < in_.size() && is_digit(in_[end + 1 + sign])) {
        kind = LexToken::Kind::number;
        end += 1 + sign;
        digits();
      }
    }
    std::string text = in_.substr(at_, end - at_);
    std::erase(text, '_');
    add(kind, std::move(text));
    move_to(end);
  }

  void read_string(char quote) {
    std::string text;
    std::size_t at = at_ + 1;
    while (at < in_.size() && in_[at] != quote) {
      if (in_[at] == '\\' && at + 1 < in_.size())
        at = read_escape(at + 1, text);
      else
        text.push_back(in_[at++]);
    }
    if (at >= in_.size()) fail("a string has no end");
    add(LexToken::Kind::string, std::move(text));
    move_to(at + 1);
  }

  std::size_t read_escape(std::size_t at, std::string& text) const {
    constexpr std::string_view kCodes = "nrtabfv\\'\"", kMeanings = "\n\r\t\a\b\f\v\\'\"";
    const char c = in_[at];
    if (const std::size_t code = kCodes.find(c); code != std::string_view::npos) {
      text.push_back(kMeanings[code]);
      return at + 1;
    }
    if (c == '\n') return at + 1;
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0 && at + digits < in_.size()) {
      std::uint32_t value = 0;
      const char* const end = in_.data() + at + 1 + digits;
      if (std::from_chars(in_.data() + at + 1, end, value, 16).ptr == end) {
        append_utf8(text, value);
        return at + 1 + digits;
      }
    }
    text += {'\\', c};  // as in Python
    return at + 1;
  }

  std::string in_;
  std::size_t at_ = 0, line_ = 1;
  std::vector<LexToken> out_;
};

}  // namespace

std::vector<LexToken> lex_template(std::string source) {
  if (!is_utf8(source)) throw InputError("chat template: the text is not UTF-8");
  std::string plain;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      plain.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      plain.push_back(source[i]);
    }
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return Lexer(std::move(plain)).run();
}

void TokenReader::fail(const std::string& what) const {
  throw InputError(fmt::format("chat template, line {}: {}", peek().line, what));
}

void TokenReader::refuse(std::string_view construct, const std::string& name) const {
  fail(fmt::format("the {} '{}' is not supported", construct, name));
}

const LexToken& TokenReader::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const LexToken& TokenReader::take() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }

void TokenReader::expect_op(std::string_view text) {
  if (!take_op(text)) fail(fmt::format("found '{}' where '{}' is expected", peek().text, text));
}

std::string TokenReader::expect_identifier() {
  if (peek().kind != Kind::name) fail(fmt::format("found '{}' where a name is expected", peek().text));
  return take().text;
}

void TokenReader::expect_block_end() {
  if (take().kind != Kind::end_block) fail("a block does not end where it should");
}

}  // namespace plimsoll::text

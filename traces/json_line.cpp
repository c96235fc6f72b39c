// SPDX-License-Identifier: Apache-2.0
#include "traces/json_line.h"

#include <fmt/format.h>

#include "traces/text.h"

namespace plimsoll::traces {
namespace {

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

Fault syntax(std::string text) { return {"json-syntax", std::move(text)}; }

}  // namespace

std::string_view name_of(JsonKind kind) {
  switch (kind) {
    case JsonKind::object: return "object";
    case JsonKind::array: return "array";
    case JsonKind::string: return "string";
    case JsonKind::number: return "number";
    case JsonKind::boolean: return "boolean";
    case JsonKind::null: return "null";
    case JsonKind::none: return "nothing";
  }
  return "nothing";
}

void JsonLine::blanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
}

bool JsonLine::at_end() {
  blanks();
  return at_ == text_.size();
}

bool JsonLine::done() { return at_end(); }

bool JsonLine::take(char c) {
  blanks();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

JsonKind JsonLine::kind() {
  if (at_end()) return JsonKind::none;
  const std::string_view rest = text_.substr(at_);
  if (rest[0] == '{') return JsonKind::object;
  if (rest[0] == '[') return JsonKind::array;
  if (rest[0] == '"') return JsonKind::string;
  if (rest[0] == '-' || is_digit(rest[0])) return JsonKind::number;
  if (rest.starts_with("true") || rest.starts_with("false")) return JsonKind::boolean;
  if (rest.starts_with("null")) return JsonKind::null;
  return JsonKind::none;
}

// These are the most frequent mistakes of programs that print their own syntax instead of JSON, so each has its own
// message.
Fault JsonLine::expected(std::string_view what) {
  if (at_end()) return syntax("unexpected end of line");
  const std::string_view rest = text_.substr(at_);
  if (rest[0] == '\'') return syntax("single-quoted text is not JSON");
  for (const std::string_view word : {"NaN", "Infinity", "None", "True", "False"}) {
    if (rest.starts_with(word)) return syntax(fmt::format("{} is not JSON", word));
  }
  return syntax(fmt::format("expected {}, found {}", what, quoted(rest.substr(0, 12))));
}

Fault JsonLine::string(std::string_view& out) {
  if (!take('"')) return expected("a string");
  const std::size_t begin = at_;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      out = text_.substr(begin, at_ - begin);
      ++at_;
      return {};
    }
    if (static_cast<unsigned char>(c) < 0x20) return syntax("raw control character in a string");
    if (c != '\\') continue;
    if (Fault fault = escape()) return fault;
  }
  return syntax("unexpected end of line in a string");
}

// Called at a backslash; leaves the cursor on the last byte of the escape.
Fault JsonLine::escape() {
  const char kind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (std::string_view("\"\\/bfnrt").find(kind) != std::string_view::npos && kind != '\0') {
    ++at_;
    return {};
  }
  if (kind != 'u' || at_ + 5 >= text_.size()) return syntax("bad escape in a string");
  for (std::size_t i = at_ + 2; i < at_ + 6; ++i) {
    if (!is_hex(text_[i])) return syntax("bad escape in a string");
  }
  at_ += 5;
  return {};
}

// Checks the grammar only; the caller converts the text. The library's conversions would also accept inf and nan, which
// JSON does not allow.
Fault JsonLine::number(std::string_view& out) {
  blanks();
  const std::size_t begin = at_;
  const auto digits = [&] {
    const std::size_t from = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ - from;
  };
  const auto next_is = [&](std::string_view any) {
    return at_ < text_.size() && any.find(text_[at_]) != std::string_view::npos;
  };
  if (next_is("-")) ++at_;
  const bool leading_zero = next_is("0");
  const std::size_t whole = digits();
  if (whole == 0) return expected("a number");
  if (leading_zero && whole > 1) return syntax("a number may not start with 0");
  if (next_is(".")) {
    ++at_;
    if (digits() == 0) return expected("a digit after the decimal point");
  }
  if (next_is("eE")) {
    ++at_;
    if (next_is("+-")) ++at_;
    if (digits() == 0) return expected("a digit in the exponent");
  }
  out = text_.substr(begin, at_ - begin);
  return {};
}

Fault JsonLine::skip_literal() {
  for (const std::string_view word : {"true", "false", "null"}) {
    if (!text_.substr(at_).starts_with(word)) continue;
    at_ += word.size();
    return {};
  }
  return expected("a value");
}

Fault JsonLine::skip_array(int depth) {
  if (!take('[')) return expected("'['");
  if (take(']')) return {};
  do {
    if (Fault fault = skip(depth + 1)) return fault;
  } while (take(','));
  return take(']') ? Fault{} : expected("',' or ']'");
}

Fault JsonLine::skip_object(int depth) {
  if (!take('{')) return expected("'{'");
  if (take('}')) return {};
  std::string_view key;
  do {
    if (Fault fault = string(key)) return fault;
    if (!take(':')) return expected("':'");
    if (Fault fault = skip(depth + 1)) return fault;
  } while (take(','));
  return take('}') ? Fault{} : expected("',' or '}'");
}

Fault JsonLine::skip(int depth) {
  if (depth > kMaxDepth) return {"json-depth", fmt::format("nested deeper than {} levels", kMaxDepth)};
  std::string_view ignored;
  switch (kind()) {
    case JsonKind::object: return skip_object(depth);
    case JsonKind::array: return skip_array(depth);
    case JsonKind::string: return string(ignored);
    case JsonKind::number: return number(ignored);
    case JsonKind::boolean:
    case JsonKind::null: return skip_literal();
    case JsonKind::none: return expected("a value");
  }
  return {};
}

}  // namespace plimsoll::traces

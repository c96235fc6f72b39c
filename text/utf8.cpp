// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace plimsoll::text {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0U) == 0x80; }

// The length of the character that begins with this byte; 0 if none does.
std::size_t length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Whether `second` may follow `lead`: no overlong forms, no surrogates, nothing above U+10FFFF.
bool may_follow(unsigned char lead, unsigned char second) {
  switch (lead) {
    case 0xE0: return second >= 0xA0 && second <= 0xBF;
    case 0xED: return second >= 0x80 && second <= 0x9F;
    case 0xF0: return second >= 0x90 && second <= 0xBF;
    case 0xF4: return second >= 0x80 && second <= 0x8F;
    default: return is_continuation(second);
  }
}

// The number of ASCII bytes at the front, counted in words of eight.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  return at;
}

}  // namespace

char32_t read_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const std::size_t length = utf8_length(text[at]);
  char32_t out = byte(0);
  if (length == 2) out = (out & 0x1FU) << 6U | (byte(1) & 0x3FU);
  if (length == 3) out = (out & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
  if (length == 4) out = (out & 0x07U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U | (byte(3) & 0x3FU);
  at += length;
  return out;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t value) { out.push_back(static_cast<char>(static_cast<unsigned char>(value))); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0U | code_point >> 6U);
  } else if (code_point < 0x10000) {
    put(0xE0U | code_point >> 12U);
    put(0x80U | (code_point >> 6U & 0x3FU));
  } else {
    put(0xF0U | code_point >> 18U);
    put(0x80U | (code_point >> 12U & 0x3FU));
    put(0x80U | (code_point >> 6U & 0x3FU));
  }
  put(0x80U | (code_point & 0x3FU));
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    at += ascii_prefix(text.substr(at));
    if (at == text.size()) return true;
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t length = length_of(lead);
    if (length == 0 || at + length > text.size()) return false;
    for (std::size_t i = 1; i < length; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      if (i == 1 ? !may_follow(lead, next) : !is_continuation(next)) return false;
    }
    at += length;
  }
  return true;
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && is_continuation(static_cast<unsigned char>(text[at]))) --at;
  return at;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (open_.empty()) {
      const std::size_t ascii = ascii_prefix(bytes.substr(at));
      out.append(bytes.substr(at, ascii));
      at += ascii;
      if (at == bytes.size()) return;
    }
    push_byte(bytes[at], out);
  }
}

void Utf8Stream::push_byte(char byte, std::string& out) {
  const auto value = static_cast<unsigned char>(byte);
  if (!open_.empty()) {
    const bool fits =
        open_.size() == 1 ? may_follow(static_cast<unsigned char>(open_[0]), value) : is_continuation(value);
    if (fits) {
      open_.push_back(byte);
      if (open_.size() == expected_) {
        out.append(open_);
        open_.clear();
      }
      return;
    }
    finish(out);
  }
  expected_ = length_of(value);
  if (expected_ == 1)
    out.push_back(byte);
  else if (expected_ == 0)
    out.append(kReplacement);
  else
    open_.push_back(byte);
}

void Utf8Stream::finish(std::string& out) {
  if (!open_.empty()) out.append(kReplacement);
  open_.clear();
}

// ---- the alphabet of bytes -----------------------------------------------------------------------------------

static constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

const std::array<std::string, 256>& byte_alphabet() {
  static const std::array<std::string, 256> kAlphabet = [] {
    std::array<std::string, 256> out;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) append_utf8(out[byte], is_printable(byte) ? byte : next++);
    return out;
  }();
  return kAlphabet;
}

std::optional<std::string> bytes_of(std::string_view text) {
  static const std::array<int, 0x180> kBytes = [] {
    std::array<int, 0x180> out{};
    out.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::size_t at = 0;
      out[read_code_point(byte_alphabet()[byte], at)] = static_cast<int>(byte);
    }
    return out;
  }();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = read_code_point(text, at);
    if (c >= kBytes.size() || kBytes[c] < 0) return std::nullopt;
    out.push_back(static_cast<char>(static_cast<unsigned char>(kBytes[c])));
  }
  return out;
}

}  // namespace plimsoll::text

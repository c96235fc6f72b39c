// SPDX-License-Identifier: Apache-2.0
// UTF-8: reading and writing code points, and replacing what is not valid.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::text {

/// U+FFFD, which replaces bytes that are not UTF-8.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Returns the length in bytes of the character that begins with `lead` in valid UTF-8.
[[nodiscard]] constexpr std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
/// Reads the code point at `at` and moves `at` behind it. `text` must be valid UTF-8.
[[nodiscard]] char32_t read_code_point(std::string_view text, std::size_t& at);
void append_utf8(std::string& out, char32_t code_point);
/// True for Unicode's property White_Space.
[[nodiscard]] bool is_white_space(char32_t c);

[[nodiscard]] bool is_utf8(std::string_view text);
/// Returns where the last character of `text` begins. `text` must be valid UTF-8 and not empty.
[[nodiscard]] std::size_t last_character(std::string_view text);

/// Turns a stream of bytes into valid UTF-8. Each maximal part of an ill-formed character becomes one U+FFFD. A
/// character is passed on when its last byte has arrived.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& out);
  /// Ends the stream: an unfinished character becomes U+FFFD.
  void finish(std::string& out);

 private:
  void push_byte(char byte, std::string& out);

  std::string open_;          // the beginning of a character
  std::size_t expected_ = 0;  // its length in bytes
};

// ---- the alphabet of GPT-2 and its successors: a printable character for each byte --------------------------------
// Printable bytes of Latin-1 stand for themselves; the others are U+0100 and the following ones, in order.

/// Returns the characters of the 256 bytes.
[[nodiscard]] const std::array<std::string, 256>& byte_alphabet();
/// Returns the bytes that a text in the alphabet stands for; nullopt if a character is not in the alphabet.
[[nodiscard]] std::optional<std::string> bytes_of(std::string_view text);

}  // namespace plimsoll::text

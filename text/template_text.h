// SPDX-License-Identifier: Apache-2.0
// Texts as Python's `str` sees them: Unicode's white space, letter cases, lines and repr(). All take valid UTF-8.
// Private to the template's files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

/// Returns the characters, as views of `text`, which must outlive them.
[[nodiscard]] std::vector<std::string_view> characters_of(std::string_view text);
std::vector<std::string_view> characters_of(std::string&&) = delete;  // the views would outlive a temporary text

[[nodiscard]] bool is_space(char32_t c);
/// Returns the text without white space at its ends. Views of `text`.
[[nodiscard]] std::string_view left_stripped(std::string_view text);
[[nodiscard]] std::string_view right_stripped(std::string_view text);
/// Returns where the first white space at or behind `at` begins, or ends if `at` is in one; the size if there is none.
[[nodiscard]] std::size_t next_space(std::string_view text, std::size_t at);
[[nodiscard]] std::size_t after_spaces(std::string_view text, std::size_t at);

[[nodiscard]] std::string upper_text(std::string_view text);
[[nodiscard]] std::string lower_text(std::string_view text);
/// Returns the first character as in a title and the others in lower case.
[[nodiscard]] std::string capitalized(std::string_view text);
/// Returns every word capitalized; a word is a run of characters with cases.
[[nodiscard]] std::string titled(std::string_view text);

/// What str.isalpha() and its kin ask of a text. All are false of an empty text.
enum class Letters : std::uint8_t { alphabetic, alphanumeric, decimal, digits, spaces, lower, upper };
[[nodiscard]] bool consists_of(std::string_view text, Letters letters);

/// Returns the lines, without or with their ends. An end is any that Unicode knows.
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);
/// Returns Python's repr().
[[nodiscard]] std::string python_repr(std::string_view text);

}  // namespace plimsoll::text

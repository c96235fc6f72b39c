// SPDX-License-Identifier: Apache-2.0
// Quotes input text in messages, and checks that it is text. Internal to traces/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "traces/reader.h"

namespace plimsoll::traces {

/// Returns 'text' in quotes: at most 40 bytes of it, with control and non-ASCII bytes as \xHH.
[[nodiscard]] std::string quoted(std::string_view text);

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns whether all bytes are ASCII and none is NUL: a fast test that most lines pass.
[[nodiscard]] bool is_plain_ascii(std::string_view text);

struct BadByte {
  std::size_t offset = std::string_view::npos;  // npos if the text is well-formed UTF-8 without NUL
  std::string code, text;                       // "nul-byte" or "invalid-utf8", and the message
};
/// Finds the first NUL or the first byte that is not valid UTF-8 (this includes overlong forms and surrogates).
[[nodiscard]] BadByte find_bad_byte(std::string_view text);

[[nodiscard]] std::string_view trimmed(std::string_view text);

/// Throws TraceError.
[[noreturn]] void reject(TraceProblem problem);

}  // namespace plimsoll::traces

// SPDX-License-Identifier: Apache-2.0
// How input text is shown in a message and checked to be text at all. Internal to traces/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "traces/reader.h"

namespace plimsoll::traces {

/// 'text' in quotes: at most 40 bytes of it, control and non-ASCII bytes as \xHH.
[[nodiscard]] std::string quoted(std::string_view text);

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether no byte is NUL or beyond ASCII: the quick test that most lines pass.
[[nodiscard]] bool is_plain_ascii(std::string_view text);

struct BadByte {
  std::size_t offset = std::string_view::npos;  // npos: the text is well-formed UTF-8 without NUL
  std::string code, text;                       // "nul-byte" or "invalid-utf8", and what to say
};
/// The first NUL or the first byte that breaks UTF-8 (overlong forms and surrogates included).
[[nodiscard]] BadByte find_bad_byte(std::string_view text);

[[nodiscard]] std::string_view trimmed(std::string_view text);

/// Throws TraceError.
[[noreturn]] void reject(TraceProblem problem);

}  // namespace plimsoll::traces

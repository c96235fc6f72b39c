// SPDX-License-Identifier: Apache-2.0
// Translation of regular expressions from Oniguruma's dialect to PCRE2's. Private to text/regex.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::text {

/// Characters that Unicode has added since the version of PCRE2's tables.
enum class NewerCharacters : std::uint8_t { leave_out, list };

/// Returns the same pattern in PCRE2's dialect. Throws InputError for a construct that PCRE2 lacks.
[[nodiscard]] std::string to_pcre2(const std::string& pattern, NewerCharacters newer);
/// Returns whether valid UTF-8 has a character that Unicode added in the versions 15.0 to 16.0.
[[nodiscard]] bool has_newer_character(std::string_view text);

}  // namespace plimsoll::text

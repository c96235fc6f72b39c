// SPDX-License-Identifier: Apache-2.0
// The alphabet of GPT-2 and its successors: a printable character for each byte. Printable bytes of Latin-1 stand for
// themselves; the others are U+0100 and the following ones, in order.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::text {

/// Returns the characters of the 256 bytes.
[[nodiscard]] const std::array<std::string, 256>& byte_alphabet();
/// Returns the bytes that a text in the alphabet stands for; nullopt if a character is none of the alphabet.
[[nodiscard]] std::optional<std::string> bytes_of(std::string_view text);

}  // namespace plimsoll::text

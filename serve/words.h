// SPDX-License-Identifier: Apache-2.0
// The text of tokens without meaning. With its space, a word has about four characters, as a token of a prompt does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll::serve {

inline constexpr std::array<std::string_view, 16> kWords = {
    "the", "sea", "is", "calm", "and", "our", "ship", "can", "take", "on", "more", "load", "to", "her", "own", "mark"};
[[nodiscard]] inline std::string_view word(std::int32_t token) {
  return kWords.at(static_cast<std::size_t>(token) % kWords.size());
}

}  // namespace plimsoll::serve

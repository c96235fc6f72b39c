// SPDX-License-Identifier: Apache-2.0
// Opening a file that a user has named.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

/// Opens for reading. On failure returns -1 with errno as open(2) sets it. A FIFO that has no writer within `patience`
/// fails with ETIMEDOUT instead of waiting for ever; one with a writer (a shell's <(command)) reads like a file.
[[nodiscard]] int open_input(const std::string& path, std::chrono::milliseconds patience = std::chrono::seconds(10));

// What is UTF-8: asked by the readers of configurations and of traces.

/// Bytes of the well-formed UTF-8 sequence that starts the text, 0 if none does (Unicode 15, table 3-7: no overlong
/// forms, no surrogates, nothing beyond U+10FFFF). The text is not empty.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

}  // namespace plimsoll

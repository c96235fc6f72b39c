// SPDX-License-Identifier: Apache-2.0
// Opens a file named by the user, and checks UTF-8.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

/// Opens a file for reading. On failure returns -1 with errno set as by open(2). A FIFO without a writer within
/// `patience` fails with ETIMEDOUT instead of blocking for ever; one with a writer (a shell's <(command)) is read like
/// a file.
[[nodiscard]] int open_input(const std::string& path, std::chrono::milliseconds patience = std::chrono::seconds(10));

// UTF-8 validation for the readers of configurations and traces.

/// Returns the number of bytes in the well-formed UTF-8 sequence at the start of the text; 0 if there is none (Unicode
/// 15, table 3-7: no overlong forms, no surrogates, nothing beyond U+10FFFF). The text must not be empty.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

}  // namespace plimsoll

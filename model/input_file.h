// SPDX-License-Identifier: Apache-2.0
// Opening a file that a user has named.
#pragma once

#include <chrono>
#include <string>

namespace plimsoll {

/// Opens for reading. On failure returns -1 with errno as open(2) sets it. A FIFO that has no writer within `patience`
/// fails with ETIMEDOUT instead of waiting for ever; one with a writer (a shell's <(command)) reads like a file.
[[nodiscard]] int open_input(const std::string& path, std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace plimsoll

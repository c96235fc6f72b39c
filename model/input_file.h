// SPDX-License-Identifier: Apache-2.0
// Opening a file that a user has named.
#pragma once

#include <chrono>
#include <string>

namespace plimsoll {

/// Opens for reading; -1 and errno as open(2). A FIFO that nobody writes to for `patience` is ETIMEDOUT instead of
/// waiting for ever; one that somebody does (a shell's <(command)) reads like a file.
[[nodiscard]] int open_input(const std::string& path, std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace plimsoll

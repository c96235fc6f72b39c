// SPDX-License-Identifier: Apache-2.0
// How much host memory a program may still take: what does not fit is refused with sizes before the kernel ends us
// without.
#pragma once

#include <filesystem>
#include <optional>

namespace plimsoll::exec {

/// Bytes that can be taken without swapping: the kernel's MemAvailable, or less where a control group (a container, a
/// batch job) has a lower limit; pages of files that a group holds count as available. Nothing where the kernel does
/// not tell. `root` is where /proc and /sys are.
[[nodiscard]] std::optional<double> available_memory(const std::filesystem::path& root = "/");

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// The host memory that this process may still allocate. Allocations that do not fit are refused with their sizes,
// before the kernel kills the process.
#pragma once

#include <filesystem>
#include <optional>

namespace plimsoll::exec {

/// Returns the bytes that can be allocated without swapping: the kernel's MemAvailable, or less if a control group (a
/// container, a batch job) has a lower limit. File pages of the group count as available. nullopt if the kernel does
/// not report it. `root` is the folder that holds /proc and /sys.
[[nodiscard]] std::optional<double> available_memory(const std::filesystem::path& root = "/");

}  // namespace plimsoll::exec

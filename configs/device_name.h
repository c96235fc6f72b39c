// SPDX-License-Identifier: Apache-2.0
// Matches the names that devices report with accelerators of the catalogue.
#pragma once

#include <string>

namespace plimsoll::configs {

/// Returns true if a device that reports `description` ("NVIDIA H200 (sm_90)") is the accelerator `id` ("h200-sxm").
[[nodiscard]] bool is_same_device(const std::string& description, const std::string& id);

}  // namespace plimsoll::configs

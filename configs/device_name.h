// SPDX-License-Identifier: Apache-2.0
// The names that devices give themselves.
#pragma once

#include <string>

namespace plimsoll::configs {

/// Whether a device that calls itself `description` ("NVIDIA H200 (sm_90)") is the accelerator `id` ("h200-sxm").
[[nodiscard]] bool is_same_device(const std::string& description, const std::string& id);

}  // namespace plimsoll::configs

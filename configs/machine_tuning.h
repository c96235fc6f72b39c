// SPDX-License-Identifier: Apache-2.0
// The key `kernels` of a machine file (this_machine.h): how the CPU executor runs products.
#pragma once

#include <optional>
#include <string>

#include "configs/yaml_document.h"
#include "model/cpu_tuning.h"

namespace plimsoll::configs {

/// Throws InputError for an unknown key or a value out of range.
[[nodiscard]] model::CpuTuning read_tuning(const Node& node);
/// Returns the tuning as the value of the key: lines that begin with `pad`.
[[nodiscard]] std::string tuning_yaml(const model::CpuTuning& tuning, const std::string& pad);
/// Returns the tuning in a machine file; none if it has none. Throws as read_this_machine().
[[nodiscard]] std::optional<model::CpuTuning> tuning_of(const Document& document);
/// Returns the tuning of this machine's calibration; none without one.
[[nodiscard]] std::optional<model::CpuTuning> calibrated_tuning();

}  // namespace plimsoll::configs

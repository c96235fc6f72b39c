// SPDX-License-Identifier: Apache-2.0
// Host time of the live loop: what a step takes beyond the device's work.
#pragma once

#include "model/engine_profile.h"
#include "validation/machine_calibration.h"

namespace plimsoll::validation {

/// Runs the live loop with a device that answers at once, at several numbers of sequences, and fits the time a step and a
/// sequence take.
[[nodiscard]] model::EngineProfile measure_host(const configs::Catalogue& catalogue, const MachineSettings& settings);
/// Bytes of this machine's memory that programs can take now.
[[nodiscard]] double host_memory_bytes();

}  // namespace plimsoll::validation

// SPDX-License-Identifier: Apache-2.0
// Measures the host time of the live loop: the time of a step beyond the device's work.
#pragma once

#include <array>
#include <vector>

#include "calibration/machine_calibration.h"
#include "model/engine_profile.h"

namespace plimsoll::calibration {

/// The quantities that the host time of a run depends on (model/engine_profile.h), and that time.
struct HostSample {
  double steps = 0, rows = 0, tokens = 0, prompts = 0, seconds = 0;
};
/// Returns the seconds per step, per row, per input token and per prompt; none is negative.
[[nodiscard]] std::array<double, 4> fit_host(const std::vector<HostSample>& samples);
/// Runs the live loop with a device of fixed forward times at several numbers of sequences, and fits the remaining
/// time.
[[nodiscard]] model::EngineProfile measure_host(const configs::Catalogue& catalogue, const MachineSettings& settings);
/// Returns the bytes of memory that programs on this machine can still allocate.
[[nodiscard]] double host_memory_bytes();

}  // namespace plimsoll::calibration

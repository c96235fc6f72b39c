// SPDX-License-Identifier: Apache-2.0
// Host time of the live loop: what a step takes beyond the device's work.
#pragma once

#include <array>
#include <vector>

#include "calibration/machine_calibration.h"
#include "model/engine_profile.h"

namespace plimsoll::calibration {

/// What the host's time of a run is a sum over (model/engine_profile.h), and that time.
struct HostSample {
  double steps = 0, rows = 0, tokens = 0, prompts = 0, seconds = 0;
};
/// Seconds a step, a row, a token of input and a prompt; none is negative.
[[nodiscard]] std::array<double, 4> fit_host(const std::vector<HostSample>& samples);
/// Runs the live loop with a device whose forwards take a set time, at several numbers of sequences, and fits what is
/// left.
[[nodiscard]] model::EngineProfile measure_host(const configs::Catalogue& catalogue, const MachineSettings& settings);
/// Bytes of this machine's memory that programs can take now.
[[nodiscard]] double host_memory_bytes();

}  // namespace plimsoll::calibration

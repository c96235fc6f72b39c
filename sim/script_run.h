// SPDX-License-Identifier: Apache-2.0
// Runs a `script` load (docs/study-file.md): requests appear just before the k-th step, and every step lasts
// `script_step` on the script's own clock, which is all that the policy sees. Real durations reach only the metrics.
#pragma once

#include "sched/measurements.h"
#include "sim/scenario.h"
#include "sim/simulate.h"

namespace plimsoll::sim {

/// Throws InputError for more than one replica.
[[nodiscard]] RunResult run_script(const Scenario& scenario, const RunOptions& options, sched::Measurements& out);

}  // namespace plimsoll::sim

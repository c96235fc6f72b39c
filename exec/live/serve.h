// SPDX-License-Identifier: Apache-2.0
// Measures a point: the scenario that the simulator would run, on devices that run the forwards. LiveRun (live_run.h)
// is the counterpart of the simulator's SimRun.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/forward_device.h"
#include "exec/live/prompt_source.h"
#include "load/scenario.h"
#include "sched/run_result.h"

namespace plimsoll::exec {

/// One device a replica, each with room for scenario.kv; they outlive the run.
struct LiveReplicas {
  std::vector<ForwardDevice*> devices;
  std::int32_t sequences = 256;  // EngineConfig::sequences
  Sampling sampling;
};

struct MeasuredRun {
  sched::RunResult run;  // `stopped` after a failure: metrics are not valid, the rest is what there was
  std::string failure;   // a DeviceError's text; empty: none
};

/// Runs a point from its first request to its last, in real time, or to options.stop. Script loads run on the script's
/// own clock. Throws InputError for a scenario that cannot run so.
[[nodiscard]] MeasuredRun measure_point(const load::Scenario& scenario, const LiveReplicas& replicas,
                                        const PromptSource& prompts, const sched::RunOptions& options);

/// Runs forwards of the scenario's kind for a moment, so that pages are mapped, kernels chosen and graphs recorded
/// before the clock starts (warm_up.cpp): up to a second a device, half a minute where it records. Throws DeviceError.
void warm_up(const load::Scenario& scenario, const LiveReplicas& replicas, const PromptSource& prompts);

}  // namespace plimsoll::exec

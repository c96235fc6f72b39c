// SPDX-License-Identifier: Apache-2.0
// Measures a point: runs the scenario that the simulator would run, on devices that execute the forwards. LiveRun
// (live_run.h) is the counterpart of the simulator's SimRun.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/forward_device.h"
#include "exec/live/prompts.h"
#include "load/scenario.h"
#include "sched/run_result.h"

namespace plimsoll::exec {

/// One device per replica, each with memory for scenario.kv; with pools, those of the decode pool first. The devices
/// must outlive the run.
struct LiveReplicas {
  std::vector<ForwardDevice*> devices;
  std::int32_t sequences = 256;  // EngineConfig::sequences
  Sampling sampling;
  /// If set, every worker reports its tokens. The slots after scenario.replicas are prefill replicas.
  std::function<void(std::size_t slot, std::uint64_t serial, std::int32_t token)> on_token = {};
};

/// Runs a point in real time, until its last request has ended or options.stop is requested. Script loads run on the
/// script's own clock. A DeviceError ends the run (RunResult::failure). Throws InputError for a scenario that cannot be
/// measured.
[[nodiscard]] sched::RunResult measure_point(const load::Scenario& scenario, const LiveReplicas& replicas,
                                             const PromptSource& prompts, const sched::RunOptions& options);

/// Runs forwards like the scenario's before the clock starts, so that pages are mapped, kernels chosen and graphs
/// recorded (warm_up.cpp). Takes up to 1 s per device, or 30 s if the device records graphs. Throws DeviceError.
void warm_up(const load::Scenario& scenario, const LiveReplicas& replicas, const PromptSource& prompts);

}  // namespace plimsoll::exec

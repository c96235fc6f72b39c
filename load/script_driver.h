// SPDX-License-Identifier: Apache-2.0
// Runs a `script` load (docs/study-file.md): requests appear just before the k-th step, and every step lasts
// `script_step` on the script's own clock. The policy sees only this clock; real durations affect only the metrics.
// Both backends use this driver, so their decisions are equal by construction.
#pragma once

#include <optional>

#include "load/scenario.h"
#include "sched/metrics_collector.h"
#include "sched/replica.h"
#include "sched/run_result.h"

namespace plimsoll::load {

/// The replica of a script, and the backend that runs its steps.
class ScriptReplica {
 public:
  virtual ~ScriptReplica() = default;
  [[nodiscard]] virtual sched::Replica& replica() = 0;
  virtual std::optional<sched::ReqId> arrive(const sched::NewRequest& request, Nanos now) {
    return replica().arrive(request, now);
  }
  virtual bool decide(Nanos now) { return replica().decide(now); }
  /// Reports that a request has left the replica.
  virtual void ended(const sched::FinishedAttempt&) {}
  /// Runs the decided step and completes it with the stamp `end`. `real_start` is its start in the run, in seconds.
  /// Returns its duration in seconds.
  virtual double run_step(Nanos start, Nanos end, double real_start) = 0;
};

/// Runs the script. Metrics are added to `out`; the caller fills in the result's steps. If the replica throws
/// DeviceError, the partial result contains its text (RunResult::failure). Throws InputError for a script that never
/// ends.
[[nodiscard]] sched::RunResult run_script(const Scenario& scenario, const sched::RunOptions& options,
                                          ScriptReplica& replica, sched::MetricsCollector& out);

}  // namespace plimsoll::load

// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.h"

#include "sim/fleet.h"
#include "sim/script_run.h"

namespace plimsoll::sim {

RunResult simulate(const Scenario& scenario, const RunOptions& options) {
  const bool whole_batches = sched::make_policy(scenario.policy)->traits().returns_at_batch_end;
  sched::Measurements measurements(scenario.slo, scenario.warmup, whole_batches);
  RunResult result;
  if (std::holds_alternative<traces::Script>(scenario.workload.load)) {
    result = run_script(scenario, options, measurements);
    result.metrics = measurements.metrics();
    return result;
  }
  for (std::int32_t replication = 0; replication < scenario.replications; ++replication) {
    RunOptions run_options = options;
    if (replication > 0) run_options.keep_requests = run_options.keep_log = run_options.keep_steps = false;
    Fleet fleet(scenario, static_cast<std::uint64_t>(replication), run_options, measurements);
    if (!fleet.run()) {
      result.stopped = true;
      return result;
    }
    fleet.report(measurements);
    for (SimReplica& r : fleet.replicas()) {
      result.steps_run += r.replica().steps();
      if (replication > 0) continue;
      if (options.keep_log) {
        r.replica().log().finish();
        result.logs.push_back(r.replica().log().text());
      }
      result.steps.insert(result.steps.end(), r.step_rows().begin(), r.step_rows().end());
    }
    if (replication == 0) result.requests = fleet.clients().take_rows();
  }
  result.metrics = measurements.metrics();
  return result;
}

}  // namespace plimsoll::sim

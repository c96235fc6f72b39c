// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>

#include "load/script_driver.h"
#include "sim/sim_run.h"

namespace plimsoll::sim {

namespace {

class SimScript final : public load::ScriptReplica {
 public:
  SimScript(const load::Scenario& scenario, const RunOptions& options)
      : sim_(scenario, 0, options, SimReplica::Shared(scenario)) {}
  sched::Replica& replica() override { return sim_.replica(); }
  double run_step(Nanos start, Nanos end, double real_start) override {
    return sim_.run_scripted_step(start, end, real_start);
  }
  [[nodiscard]] const SimReplica& sim() const { return sim_; }

 private:
  SimReplica sim_;
};

RunResult simulate_script(const load::Scenario& scenario, const RunOptions& options,
                          sched::MetricsCollector& measurements) {
  SimScript script(scenario, options);
  RunResult result = load::run_script(scenario, options, script, measurements);
  result.steps = script.sim().step_rows();
  result.beyond_measured = script.sim().beyond_measured();
  if (!result.stopped) result.metrics = measurements.metrics();
  return result;
}

// The batch size of an open loop is known only after the run. For a closed loop, the number of users is checked before
// it.
void note_batch(const load::Scenario& scenario, RunResult& result) {
  if (!scenario.engine->calibrated || load::is_closed_loop(scenario.workload.load) ||
      load::script_of(scenario.workload) != nullptr || result.metrics.requests_completed == 0)
    return;
  model::Interval fitted;
  for (const model::CalibratedRange& range : scenario.engine->ranges) {
    if (!range.batch.is_stated()) return;
    fitted.low = fitted.is_stated() ? std::min(fitted.low, range.batch.low) : range.batch.low;
    fitted.high = std::max(fitted.high, range.batch.high);
  }
  const double batch = result.metrics.batch_mean;
  if (fitted.holds(batch)) return;
  const bool small = batch < fitted.low;
  result.beyond_measured.insert(fmt::format("outside the fitted range of {}: a mean batch of {} than {:g} sequences",
                                            scenario.engine->id, small ? "less" : "more",
                                            small ? fitted.low : fitted.high));
}

}  // namespace

RunResult simulate(const load::Scenario& scenario, const RunOptions& options) {
  const bool whole_batches = sched::traits_of(scenario.policy).returns_at_batch_end;
  sched::MetricsCollector measurements(scenario.slo, scenario.warmup, whole_batches);
  if (load::script_of(scenario.workload) != nullptr && !scenario.pools) {
    return simulate_script(scenario, options, measurements);
  }
  RunResult result = load::run_replications(
      scenario, options, measurements,
      [&scenario](std::uint64_t, const RunOptions& kept) { return std::make_unique<SimRun>(scenario, kept); });
  if (result.stopped) return result;
  result.metrics = measurements.metrics();
  note_batch(scenario, result);
  return result;
}

}  // namespace plimsoll::sim

// SPDX-License-Identifier: Apache-2.0
#include "exec/live/measure_point.h"

#include <memory>
#include <optional>

#include "exec/live/live_run.h"
#include "exec/live/step_workers.h"
#include "load/script_driver.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {

// Runs the steps of a script like those of any other load. Only the times that the policy sees are the script's.
class LiveScript final : public load::ScriptReplica {
 public:
  LiveScript(const load::Scenario& scenario, const sched::RunOptions& options, StepExecutor& executor)
      : live_(scenario, 0, options, events_), executor_(executor) {
    executor_.start_clock();
  }
  sched::Replica& replica() override { return live_.replica(); }
  std::optional<ReqId> arrive(const sched::NewRequest& request, Nanos now) override {
    return live_.arrive(request, now);
  }
  bool decide(Nanos now) override { return live_.decide(now); }
  void ended(const sched::FinishedAttempt& ended) override { live_.ended(ended); }

  double run_step(Nanos start, Nanos end, double real_start) override {
    StepOrder order = live_.make_order();
    order.steps = 1;                // a request may arrive before the next step
    order.wake_at = sched::kNever;  // the policy's wake-up time is on the script's clock
    executor_.submit(0, std::move(order));
    std::vector<StepReport> reports;
    while (reports.empty()) (void)executor_.wait(sched::kNever, reports);
    const StepSpan& span = reports.front().span;
    const double seconds = 1e-9 * static_cast<double>(span.end - span.start);
    live_.complete_scripted(start, end, real_start, seconds);
    return seconds;
  }

  [[nodiscard]] std::vector<sched::StepRow>& step_rows() { return live_.step_rows(); }

 private:
  load::EventLog events_{false};
  LiveReplica live_;
  StepExecutor& executor_;
};

void run_replications(const load::Scenario& scenario, const LiveReplicas& replicas, const PromptSource& prompts,
                      const sched::RunOptions& options, sched::MetricsCollector& measurements, MeasuredRun& result) {
  std::optional<StepWorkers> workers;  // of the current replication; each replication starts with empty caches
  const auto make = [&](std::uint64_t, const sched::RunOptions& kept) {
    workers.emplace(replicas.devices, builder_config(scenario, replicas.sequences, replicas.sampling), prompts);
    return std::make_unique<LiveRun>(scenario, kept, *workers);
  };
  result.run = load::run_replications(scenario, options, measurements, make, &result.failure);
}

void run_script(const load::Scenario& scenario, const LiveReplicas& replicas, const PromptSource& prompts,
                const sched::RunOptions& options, sched::MetricsCollector& measurements, MeasuredRun& result) {
  StepWorkers workers(replicas.devices, builder_config(scenario, replicas.sequences, replicas.sampling), prompts);
  LiveScript script(scenario, options, workers);
  result.run = load::run_script(scenario, options, script, measurements, &result.failure);
  result.run.steps = script.step_rows();
}

}  // namespace

MeasuredRun measure_point(const load::Scenario& scenario, const LiveReplicas& replicas, const PromptSource& prompts,
                          const sched::RunOptions& options) {
  PLIMSOLL_CHECK(replicas.devices.size() == static_cast<std::size_t>(scenario.replicas), "one device a replica");
  const bool whole_batches = sched::traits_of(scenario.policy).returns_at_batch_end;
  sched::MetricsCollector measurements(scenario.slo, scenario.warmup, whole_batches);
  MeasuredRun result;
  if (std::holds_alternative<load::Script>(scenario.workload.load)) {
    run_script(scenario, replicas, prompts, options, measurements, result);
  } else {
    run_replications(scenario, replicas, prompts, options, measurements, result);
  }
  if (!result.run.stopped) result.run.metrics = measurements.metrics();
  return result;
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/live/measure_point.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>

#include "exec/live/live_run.h"
#include "exec/live/step_workers.h"
#include "load/script_driver.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {

// Creates new workers for a replication.
using MakeWorkers = std::function<void(std::optional<StepWorkers>& workers)>;

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

sched::RunResult run_replications(const load::Scenario& scenario, const MakeWorkers& make_workers,
                                  const sched::RunOptions& options, sched::MetricsCollector& measurements) {
  std::optional<StepWorkers> workers;  // of the current replication; each replication starts with empty caches
  return load::run_replications(scenario, options, measurements, [&](std::uint64_t, const sched::RunOptions& kept) {
    make_workers(workers);
    return std::make_unique<LiveRun>(scenario, kept, *workers);
  });
}

sched::RunResult run_script(const load::Scenario& scenario, const MakeWorkers& make_workers,
                            const sched::RunOptions& options, sched::MetricsCollector& measurements) {
  std::optional<StepWorkers> workers;
  make_workers(workers);
  LiveScript script(scenario, options, *workers);
  sched::RunResult result = load::run_script(scenario, options, script, measurements);
  result.steps = script.step_rows();
  return result;
}

// Whether requests of the workload begin alike.
bool shares_prefixes(const load::WorkloadSpec& workload) {
  const auto* replay = std::get_if<load::TraceReplay>(&workload.load);
  return workload.prefix.groups > 0 || (replay != nullptr && !replay->trace->hashes.empty());
}

// The executor's pool has no slots in which a prompt could stay.
void refuse_kept_prompts(const load::Scenario& scenario) {
  if (scenario.kv.prefix_caching && scenario.kv.in_slots && shares_prefixes(scenario.workload))
    throw InputError(
        fmt::format("policy {} keeps prompts in its slots, which only the simulator does; measure with "
                    "scheduler.prefix_caching: false",
                    sched::name(scenario.policy.policy)));
}

}  // namespace

sched::RunResult measure_point(const load::Scenario& scenario, const LiveReplicas& replicas,
                               const PromptSource& prompts, const sched::RunOptions& options) {
  PLIMSOLL_CHECK(replicas.devices.size() == static_cast<std::size_t>(scenario.replicas), "one device a replica");
  refuse_kept_prompts(scenario);
  const bool whole_batches = sched::traits_of(scenario.policy).returns_at_batch_end;
  sched::MetricsCollector measurements(scenario.slo, scenario.warmup, whole_batches);
  const MakeWorkers make_workers = [&](std::optional<StepWorkers>& workers) {
    workers.emplace(replicas.devices, builder_config(scenario, replicas.sequences, replicas.sampling), prompts);
  };
  const bool scripted = std::holds_alternative<load::Script>(scenario.workload.load);
  sched::RunResult result = scripted ? run_script(scenario, make_workers, options, measurements)
                                     : run_replications(scenario, make_workers, options, measurements);
  if (!result.stopped) result.metrics = measurements.metrics();
  return result;
}

}  // namespace plimsoll::exec

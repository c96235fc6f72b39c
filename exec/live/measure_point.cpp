// SPDX-License-Identifier: Apache-2.0
#include "exec/live/measure_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// Returns whether prompts of the workload share beginnings.
bool shares_prefixes(const load::WorkloadSpec& workload) {
  const auto* replay = std::get_if<load::TraceReplay>(&workload.load);
  return workload.prefix.groups > 0 || (replay != nullptr && !replay->trace->hashes.empty());
}

// Throws InputError for policies whose prompts stay in slots: the executor's pool has no slots.
void refuse_kept_prompts(const load::Scenario& scenario) {
  if (scenario.kv.prefix_caching && scenario.kv.in_slots && shares_prefixes(scenario.workload))
    throw InputError(
        fmt::format("policy {} keeps prompts in its slots, which only the simulator does; measure with "
                    "scheduler.prefix_caching: false",
                    sched::name(scenario.policy.policy)));
}

// KV is copied block by block, so both sides must have the same blocks; and a run in real time has its own transfers.
void refuse_pools_that_differ(const load::Scenario& scenario, const LiveReplicas& replicas) {
  if (!scenario.pools) return;
  const auto refuse = [](const std::string& text) { throw InputError("measured pools: " + text); };
  if (scenario.pools->transfer.overlap == load::TransferOverlap::layer)
    refuse("transfer.overlap: layer is simulated but not executed, allowed: none, chunk");
  if (std::holds_alternative<load::Script>(scenario.workload.load)) refuse("a script is simulated but not executed");
  const std::int64_t bytes = replicas.devices.front()->bytes_per_block();
  const bool equal = std::all_of(replicas.devices.begin(), replicas.devices.end(),
                                 [bytes](const ForwardDevice* device) { return device->bytes_per_block() == bytes; });
  if (!equal || scenario.tp != scenario.pools->prefill->tp)
    refuse("state the same tp, kv_dtype and scheduler.block_size for both");
}

}  // namespace

sched::RunResult measure_point(const load::Scenario& scenario, const LiveReplicas& replicas,
                               const PromptSource& prompts, const sched::RunOptions& options) {
  PLIMSOLL_CHECK(replicas.devices.size() == scenario.slots(), "one device per replica");
  refuse_kept_prompts(scenario);
  refuse_pools_that_differ(scenario, replicas);
  const bool whole_batches = sched::traits_of(scenario.policy).returns_at_batch_end;
  sched::MetricsCollector measurements(scenario.slo, scenario.warmup, whole_batches);
  const MakeWorkers make_workers = [&](std::optional<StepWorkers>& workers) {
    std::vector<StepBuilderConfig> configs(static_cast<std::size_t>(scenario.replicas),
                                           builder_config(scenario, replicas.sequences, replicas.sampling));
    if (scenario.pools)
      configs.resize(scenario.slots(), builder_config(*scenario.pools->prefill, replicas.sequences, replicas.sampling));
    workers.emplace(replicas.devices, configs, prompts);
    for (std::size_t slot = 0; replicas.on_token && slot < configs.size(); ++slot)
      workers->builder(slot).on_token = [&replicas, slot](std::uint64_t serial, std::int32_t token) {
        replicas.on_token(slot, serial, token);
      };
  };
  const bool scripted = std::holds_alternative<load::Script>(scenario.workload.load);
  sched::RunResult result = scripted ? run_script(scenario, make_workers, options, measurements)
                                     : run_replications(scenario, make_workers, options, measurements);
  if (!result.stopped) result.metrics = measurements.metrics();
  return result;
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "calibration/machine_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "configs/this_machine.h"
#include "exec/engine.h"
#include "exec/live/measure_point.h"
#include "model/error.h"
#include "sim/simulate.h"
#include "study/file/study.h"
#include "study/run/resolve.h"

namespace plimsoll::calibration {

namespace {

constexpr std::int32_t kSequences = 128;

std::string deployment_text(const std::string& model, model::DType dtype, std::int32_t tp) {
  return fmt::format("model: {}\ndtype: {}\ndeployment: {{tp: {}}}\n", model, model::name(dtype), tp);
}

load::Scenario scenario_of(const LiveLoad& load, const std::string& deployment,
                           const std::shared_ptr<const configs::Catalogue>& catalogue) {
  const std::string text =
      deployment + fmt::format(
                       "hardware: this-machine\nengine: plimsoll-cpu\n"
                       "scheduler: {{policy: vllm_v1, kv_blocks: 4000, max_running: {}, step_token_budget: 512}}\n"
                       "workload:\n  load: {{closed_loop: {{concurrency: {}}}}}\n  lengths: {{input: {}, output: {}}}\n"
                       "  requests: {}\n",
                       kSequences, load.users, load.input, load.output, 2 * load.users + 2);
  const study::Study study(configs::Document::from_text(text, "live benchmark"), "live benchmark", {}, catalogue);
  return *study::resolve_point(study, 0).scenario;
}

std::shared_ptr<const configs::Catalogue> catalogue_with(configs::ThisMachine machine, const std::string& root) {
  auto catalogue = std::make_shared<configs::Catalogue>(root);
  catalogue->set_machine("cpu", std::move(machine));
  return catalogue;
}

double run_once(const load::Scenario& scenario, exec::ForwardDevice& device, const exec::PromptSource& prompts) {
  const exec::LiveReplicas replicas{.devices = {&device}, .sequences = kSequences, .sampling = {}};
  const sched::RunResult run = exec::measure_point(scenario, replicas, prompts, {});
  if (!run.failure.empty()) throw DeviceError(run.failure);
  return run.metrics.duration_s;
}

double run_live(const load::Scenario& scenario, exec::ForwardDevice& device, const exec::PromptSource& prompts,
                bool once) {
  constexpr double kLong = 4;  // seconds; a longer run is not repeated
  std::vector<double> times = {run_once(scenario, device, prompts)};
  // The median of three removes one disturbed run.
  while (!once && times.size() < 3 && times.front() < kLong) times.push_back(run_once(scenario, device, prompts));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Linear interpolation, constant beyond the ends.
double at(const std::vector<double>& x, const std::vector<double>& y, double where) {
  if (where <= x.front()) return y.front();
  for (std::size_t i = 1; i < x.size(); ++i)
    if (where <= x[i]) return y[i - 1] + (y[i] - y[i - 1]) * (where - x[i - 1]) / (x[i] - x[i - 1]);
  return y.back();
}

void add_to_table(model::OpCoefficients& c, const std::vector<double>& x, const std::vector<double>& y) {
  if (!c.residual) return;
  model::ResidualTable table = *c.residual;
  const std::size_t width = table.y.size();
  for (std::size_t i = 0; i < table.x.size(); ++i)
    // For every class of ops, the x axis of the table is log2(rows).
    for (std::size_t j = 0; j < width; ++j) table.log_ratio[i * width + j] += at(x, y, table.x[i]);
  c.residual = std::make_shared<const model::ResidualTable>(std::move(table));
}

// Raises peaks and bandwidth and lowers efficiencies by the same factor. Times stay equal, but the fastest op can then
// become faster without exceeding its limit.
void raise_limits(model::Accelerator& a, double factor) {
  for (FlopsPerSecond* peak : {&a.fp16, &a.bf16, &a.fp32}) peak->value *= factor;
  a.memory_bandwidth.value *= factor;
  const auto lower = [&](model::OpCoefficients& c) {
    c.compute_efficiency /= factor;
    c.memory_efficiency /= factor;
  };
  for (model::OpCoefficients& c : a.coefficients) lower(c);
  for (auto& [kind, c] : a.pointwise_kinds) lower(c);
}

}  // namespace

const std::vector<LiveLoad>& live_loads() {
  static const std::vector<LiveLoad> loads = {{1, 16, 96, 1},   {3, 16, 80, 3}, {6, 16, 64, 6},   {12, 16, 40, 12},
                                              {24, 16, 28, 24}, {1, 64, 2, 64}, {1, 160, 2, 160}, {1, 448, 2, 448}};
  return loads;
}

std::vector<double> measure_live(exec::Engine& engine, const configs::Catalogue& catalogue, const std::string& model,
                                 const BenchmarkSettings& settings) {
  const exec::EngineConfig& config = engine.config();
  configs::ThisMachine machine;  // could be any machine: only the scheduler's decisions are used
  machine.shares.push_back(
      {.ranks = 1, .dtype = config.weight_dtype, .accelerator = catalogue.accelerator("generic-cpu")});
  machine.cores = config.tp;
  machine.interconnect = catalogue.interconnect("shared-memory");
  const auto own = catalogue_with(std::move(machine), catalogue.root());
  const exec::PromptSource prompts(1, config.architecture.shape.vocab);
  const std::string deployment = deployment_text(model, config.weight_dtype, config.tp);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < live_loads().size(); ++i) {
    const std::string group = fmt::format("{} live {}", settings.key, i);
    const std::optional<double> known = settings.store == nullptr ? std::nullopt : settings.store->find_time(group);
    seconds.push_back(
        known ? *known : run_live(scenario_of(live_loads()[i], deployment, own), engine, prompts, settings.coarse));
    if (!known && settings.store != nullptr) settings.store->add_time(group, "live", seconds.back());
    if (settings.progress)
      settings.progress(static_cast<double>(i + 1) / static_cast<double>(live_loads().size()), known.has_value());
  }
  return seconds;
}

void add_by_rows(model::Accelerator& accelerator, const std::vector<double>& log2_rows,
                 const std::vector<double>& log_factor) {
  const double least = *std::min_element(log_factor.begin(), log_factor.end());
  // If live steps are faster than their ops, they would exceed the limits that were fitted to the ops.
  if (least < 0) raise_limits(accelerator, std::exp(-least));
  for (model::OpCoefficients& c : accelerator.coefficients) add_to_table(c, log2_rows, log_factor);
  for (auto& [kind, c] : accelerator.pointwise_kinds) add_to_table(c, log2_rows, log_factor);
}

std::vector<double> simulate_live(const ShareCalibration& share, const std::string& model,
                                  const model::EngineProfile& engine, const configs::Catalogue& catalogue) {
  configs::ThisMachine machine;
  machine.cores = share.ranks;
  machine.shares.push_back({.ranks = share.ranks,
                            .dtype = share.dtype,
                            .accelerator = std::make_shared<const model::Accelerator>(share.accelerator),
                            .interconnect = std::make_shared<const model::Interconnect>(share.interconnect)});
  machine.interconnect = machine.shares.front().interconnect;
  machine.engine = std::make_shared<const model::EngineProfile>(engine);
  const auto own = catalogue_with(std::move(machine), catalogue.root());
  const std::string deployment = deployment_text(model, share.dtype, share.ranks);
  std::vector<double> seconds;
  for (const LiveLoad& load : live_loads())
    seconds.push_back(sim::simulate(scenario_of(load, deployment, own), {}).metrics.duration_s);
  return seconds;
}

void settle_live(ShareCalibration& share,
                 const std::vector<std::pair<std::string, std::vector<double>>>& seconds_of_models,
                 const model::EngineProfile& engine, const configs::Catalogue& catalogue) {
  const model::Accelerator measured = share.accelerator;
  const std::vector<LiveLoad>& loads = live_loads();
  std::vector<double> rows, factor(loads.size(), 0.0);
  for (const LiveLoad& load : loads) rows.push_back(std::log2(load.rows));
  constexpr int kRounds = 4;  // iterate: a load also has steps with other row counts, whose factors change its time
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& [model, seconds] : seconds_of_models) {
      const std::vector<double> simulated = simulate_live(share, model, engine, catalogue);
      for (std::size_t i = 0; i < loads.size(); ++i)
        factor[i] += std::log(seconds[i] / simulated[i]) / static_cast<double>(seconds_of_models.size());
    }
    constexpr double kMaxLogFactor = 0.7;  // more than a factor of two cannot be called a calibration
    for (double& f : factor) f = std::clamp(f, -kMaxLogFactor, kMaxLogFactor);
    // Apply the sum of all rounds to the original tables, so that rounding does not accumulate.
    share.accelerator = measured;
    add_by_rows(share.accelerator, rows, factor);
  }
  share.live_rows.clear();
  for (std::size_t i = 0; i < loads.size(); ++i) share.live_rows.emplace_back(loads[i].rows, std::exp(factor[i]));
}

}  // namespace plimsoll::calibration

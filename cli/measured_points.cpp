// SPDX-License-Identifier: Apache-2.0
#include "cli/measured_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/rank_group.h"
#include "cli/this_machine.h"
#include "configs/hardware_name.h"
#include "configs/this_machine.h"
#include "exec/gpu_placement.h"
#include "exec/live/prompts.h"
#include "model/error.h"

namespace plimsoll::cli {
namespace {

constexpr std::int64_t kMaxSlots = 1024;  // beyond this, sequences share no blocks and cannot run ahead
constexpr std::int64_t kStepRows = 2048;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 26;
constexpr double kMaxPoolBytes = 64e12;  // a process has address space for twice as much

// The executor has only one 16-bit float type; the memory traffic is the same for both.
model::DType executed(model::DType dtype) { return dtype == model::DType::fp16 ? model::DType::bf16 : dtype; }

std::int64_t step_rows(const load::Scenario& scenario) {
  return std::min(kStepRows, scenario.policy.step_token_budget.value_or(kStepRows));
}

/// What the process of each pool gets of this host's cores and memory.
struct HostShares {
  int decode_threads = 1, prefill_threads = 1;
  double decode_memory = 0, prefill_memory = 0;  // bytes; 0: not known
};

// The processes of two pools share the host in proportion to their replicas. Read before either loads anything.
HostShares host_shares(const exec::EngineConfig& config, const load::Scenario& decode) {
  const int threads = exec::thread_count(config), all = decode.replicas + decode.pools->prefill->replicas;
  HostShares shares;
  shares.decode_threads = std::max(1, threads * decode.replicas / all);
  shares.prefill_threads = std::max(1, threads - shares.decode_threads);
  const double each = exec::available_memory().value_or(0) / all;
  shares.decode_memory = each * decode.replicas;
  shares.prefill_memory = each * decode.pools->prefill->replicas;
  return shares;
}

exec::EngineConfig engine_config(const load::Scenario& scenario, const model::Architecture& architecture,
                                 const MeasureSettings& settings) {
  exec::EngineConfig config;
  config.architecture = architecture;
  config.device = settings.device;
  const bool alone = settings.processes == 1;
  if (alone && settings.device == exec::DeviceKind::cuda &&
      !exec::too_few_gpus(scenario.tp, scenario.replicas, exec::gpu_count()).empty())
    config.communicator = exec::CommunicatorKind::loopback;  // check_gpus() has allowed it
  config.tp = scenario.tp;
  config.weight_dtype = executed(scenario.weight_dtype);
  config.kv_dtype = executed(scenario.kv_dtype);
  config.kv_blocks = scenario.kv.blocks;
  config.block_tokens = scenario.kv.block_tokens;
  config.sequences = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(sched::resolve_limits(scenario.policy).max_running, 1, kMaxSlots));
  config.step_rows = step_rows(scenario);
  config.threads = settings.threads;
  config.graphs = !settings.trace_ops;
  return config;
}

exec::DeviceKind read_device(const char* option, const std::string& text) {
  if (text == "cpu") return exec::DeviceKind::cpu;
  if (text == "cuda") return exec::DeviceKind::cuda;
  throw InputError(fmt::format("--{}: found '{}', allowed: cpu, cuda", option, text));
}

// Returns the engine that the study states, before it is read: reading might probe the wrong device.
std::string stated_engine(const Parsed& parsed, const std::string& file) {
  for (auto set = parsed.common.set.rbegin(); set != parsed.common.set.rend(); ++set)
    if (set->first == "engine") return configs::canonical_name(set->second);
  if (file.empty()) return {};
  const configs::Document document = configs::Document::from_file(file);
  if (!document.root().is_map()) return {};
  const auto engine = document.root().find("engine");
  return engine && engine->is_scalar() ? configs::canonical_name(engine->as_string()) : std::string();
}

}  // namespace

const char* MeasuredPoints::engine_name(exec::DeviceKind device) {
  return device == exec::DeviceKind::cuda ? "plimsoll-cuda" : "plimsoll-cpu";
}

// Host times and memory of one device's engine do not apply to the other device.
exec::DeviceKind device_option(Parsed& parsed, const std::string& file, const char* option) {
  const std::string engine = stated_engine(parsed, file);
  const bool own = engine == "plimsoll-cpu" || engine == "plimsoll-cuda";
  if (parsed.values.count(option) == 0)
    return engine == "plimsoll-cuda" ? exec::DeviceKind::cuda : exec::DeviceKind::cpu;
  const exec::DeviceKind device = read_device(option, parsed.values[option].as<std::string>());
  if (own && engine != MeasuredPoints::engine_name(device))
    parsed.common.set.emplace_back("engine", MeasuredPoints::engine_name(device));
  return device;
}

// ---- what can be measured -----------------------------------------------------------------------------------

void MeasuredPoints::check() const { check_points(0, study_.point_count(), exec::kCpuOption); }

void MeasuredPoints::check_only(std::size_t index, std::string_view instead) const {
  check_points(index, index + 1, instead);
}

void MeasuredPoints::check_points(std::size_t first, std::size_t end, std::string_view instead) const {
  bool fp16 = false;
  std::string shared;
  for (std::size_t i = first; i < end; ++i) check_point(study_.point(i));
  if (settings_.device == exec::DeviceKind::cuda) exec::require_gpu(instead);
  for (std::size_t i = first; i < end; ++i) {
    const study::PointSpec spec = study_.point(i);
    if (shared.empty()) shared = check_gpus(spec);
    fp16 = fp16 || spec.weight_dtype == model::DType::fp16 || spec.kv_dtype == model::DType::fp16;
  }
  if (!shared.empty()) console_.note(shared + "; all ranks share one GPU, so times are not those of one GPU per rank");
  if (fp16) console_.note("fp16 is executed as bf16, which has the same size");
}

void MeasuredPoints::check_point(const study::PointSpec& spec) const {
  if (spec.engine->constant)
    throw InputError(spec.places.engine, "an engine of constant cost can be simulated, not measured");
  if (!spec.shape) throw InputError(spec.places.study, "model is missing: expected one to measure");
  study::refuse_turns(spec);
  const bool weights = exec::executes_weights(settings_.device, executed(spec.weight_dtype));
  if (!weights || !exec::executes_weights(exec::DeviceKind::cuda, executed(spec.kv_dtype))) {
    throw InputError(spec.places.model,
                     fmt::format("{} is simulated but not executed, allowed: weights in fp32, bf16, fp16, on a CPU "
                                 "also int8 and int4; KV cache in fp32, bf16, fp16",
                                 model::name(weights ? spec.kv_dtype : spec.weight_dtype)));
  }
  if (spec.policy.async_scheduling.value_or(false)) {
    throw InputError(spec.places.scheduler.file.empty() ? spec.places.study : spec.places.scheduler,
                     "async_scheduling is simulated but not executed: a live run decides each step when the one before "
                     "it has ended; allowed: scheduler.async_scheduling: false");
  }
  if (sched::loses_preempted_rows(spec.policy)) {
    throw InputError(spec.places.scheduler.file.empty() ? spec.places.study : spec.places.scheduler,
                     "scheduling by priority of vLLM 0.11 computes rows that have lost their KV blocks: it is "
                     "simulated but not executed; allowed: scheduler.version: \"0.12\" or later");
  }
  if (spec.deployment.pp > 1) {
    throw InputError(
        spec.places.tp.file.empty() ? spec.places.study : spec.places.tp,
        fmt::format("pp {}: pipeline stages are simulated but not executed, allowed: pp 1", spec.deployment.pp));
  }
  if (spec.deployment.ep > 1)
    throw InputError(spec.places.tp.file.empty() ? spec.places.study : spec.places.tp,
                     fmt::format("ep {}: whole experts on each rank are simulated but not executed, allowed: ep 1",
                                 spec.deployment.ep));
  if (const std::string problem = model::execution_problem(model::default_architecture(*spec.shape)); !problem.empty())
    throw InputError(spec.places.model, fmt::format("{}: {}", spec.shape->id, problem));
  check_processes(spec);
  if (spec.policy.kv_blocks) check_pool(spec, *spec.policy.kv_blocks);
  check_hardware(spec);
  if (spec.prefill) check_pools(spec);
}

// The prefill pool runs in another process on this host, which has only that pool's engines.
void MeasuredPoints::check_pools(const study::PointSpec& spec) const {
  const auto refuse = [&](const char* text) { throw InputError(spec.places.pools, text); };
  if (settings_.device != exec::DeviceKind::cpu)
    refuse("pools for prefill and decode are simulated but not executed on GPUs, allowed: --device cpu");
  if (settings_.processes > 1) refuse("pools for prefill and decode start their own process, allowed: no mpirun");
  if (settings_.trace_ops) refuse("--trace-ops records one process: measure one pool");
  if (spec.transfer.overlap == load::TransferOverlap::layer)
    refuse("transfer.overlap: layer is simulated but not executed, allowed: none, chunk");
  if (std::holds_alternative<load::Script>(spec.workload.load))
    refuse("a script for pools is simulated but not executed");
  if (spec.prefill->deployment.tp != spec.deployment.tp)
    refuse("pools of different tp are simulated but not executed: KV is copied block by block");
  if (!spec.is_fixed()) refuse("measure supports only fixed pools: no autoscaling and no failures in deployment.pools");
  check_point(*spec.prefill);
}

void MeasuredPoints::check_processes(const study::PointSpec& spec) const {
  if (spec.deployment.tp % settings_.processes == 0) return;
  throw InputError(
      spec.places.tp.file.empty() ? spec.places.study : spec.places.tp,
      fmt::format("mpirun started {} processes for tp {}: each takes the same number of tensor-parallel ranks of every "
                  "replica, allowed: mpirun -n with a divisor of tp, or no mpirun",
                  settings_.processes, spec.deployment.tp));
}

std::int32_t MeasuredPoints::most_replicas() const {
  std::int32_t most = 1;
  for (std::size_t i = 0; i < study_.point_count(); ++i)
    most = std::max(most, static_cast<std::int32_t>(study_.point(i).deployment.replicas));
  return most;
}

// Block numbers have 32 bits, and each block takes some 40 bytes before it is used.
void MeasuredPoints::check_pool(const study::PointSpec& spec, std::int64_t blocks) const {
  if (blocks > kMaxBlocks) {
    throw InputError(spec.places.scheduler,
                     fmt::format("a pool of {} KV blocks: the executor has up to {}; state a smaller "
                                 "scheduler.kv_blocks or larger blocks",
                                 blocks, kMaxBlocks));
  }
  const double bytes = static_cast<double>(blocks) * spec.policy.block_size.value_or(1) *
                       model::kv_bytes_per_token(*spec.shape, executed(spec.kv_dtype)).value;
  if (bytes <= kMaxPoolBytes) return;
  throw InputError(spec.places.scheduler,
                   fmt::format("a pool of {} KV blocks takes {:.0f} GB, more than any machine has; state "
                               "a smaller scheduler.kv_blocks",
                               blocks, bytes / 1e9));
}

// A GPU's name is known only if one is present; check_gpu() checks it.
void MeasuredPoints::check_hardware(const study::PointSpec& spec) const {
  if (spec.hardware.this_machine && settings_.device == exec::DeviceKind::cuda &&
      spec.engine->id != engine_name(settings_.device))
    throw InputError(spec.places.engine,
                     fmt::format("engine {} on this-machine means its CPU; state engine: plimsoll-cuda, or "
                                 "hardware: {{accelerator, count}}",
                                 spec.engine->id));
  if (settings_.as_is || spec.hardware.this_machine || settings_.device == exec::DeviceKind::cuda) return;
  throw InputError(spec.places.study,
                   fmt::format("the study is for {}, this machine is {}; state hardware: this-machine, or use --as-is "
                               "to measure here anyway",
                               spec.hardware.label.empty() ? "no hardware" : spec.hardware.label, processor_name()));
}

// Ranks that share a GPU compute correct results, but their times are meaningless.
std::string MeasuredPoints::check_gpus(const study::PointSpec& spec) const {
  // Ranks in several processes have one GPU each; every process looks for its own (exec/gpu_placement.h).
  if (settings_.device != exec::DeviceKind::cuda || settings_.processes > 1) return {};
  const std::string problem = exec::too_few_gpus(spec.deployment.tp, spec.deployment.replicas, exec::gpu_count());
  if (problem.empty() || settings_.as_is) return problem;
  throw InputError(spec.places.tp.file.empty() ? spec.places.study : spec.places.tp,
                   problem + "; with --as-is they share one, so times are not representative");
}

void MeasuredPoints::check_gpu(const study::PointSpec& spec) const {
  if (settings_.as_is || spec.hardware.this_machine || settings_.device == exec::DeviceKind::cpu) return;
  const std::string found = engines_->engine(0).description();
  if (spec.hardware.accelerator && configs::is_same_device(found, spec.hardware.accelerator->id)) return;
  throw InputError(spec.places.study,
                   fmt::format("the study is for {}, this machine has {}; state hardware: this-machine, or use "
                               "--as-is to measure here anyway",
                               spec.hardware.label, found));
}

// ---- running ------------------------------------------------------------------------------------------------

void MeasuredPoints::load(const study::PointSpec& spec, const load::Scenario& scenario) {
  check_pool(spec, scenario.kv.blocks);
  const std::uint64_t seed = spec.workload.seed;
  const exec::OpenModel named = exec::open_model(spec.model_name, seed, study_.catalogue());
  exec::EngineConfig config = engine_config(scenario, named.architecture, settings_);
  // The processes of a group all run as on a machine without calibration, because theirs may differ.
  if (settings_.processes == 1 && config.device == exec::DeviceKind::cpu) config.tuning = configs::calibrated_tuning();
  Loaded wanted{.model = spec.model_name,
                .weights = spec.weights,
                .seed = spec.weights.empty() ? seed : 0,
                .tp = config.tp,
                .replicas = scenario.replicas,
                .weight_dtype = config.weight_dtype,
                .kv_dtype = config.kv_dtype,
                .kv_blocks = config.kv_blocks,
                .step_rows = config.step_rows,
                .block_tokens = config.block_tokens,
                .sequences = config.sequences};
  if (scenario.pools) {
    const load::Scenario& prefill = *scenario.pools->prefill;
    wanted.prefill_replicas = prefill.replicas;
    wanted.prefill_blocks = prefill.kv.blocks;
    wanted.prefill_rows = step_rows(prefill);
  }
  if (wanted == loaded_) {
    check_gpu(spec);  // the same engines, but the study may name other hardware
    return;
  }
  prefill_.reset();  // two sets do not fit into memory
  engines_.reset();
  loaded_.reset();
  const exec::OpenModel model = exec::open_weights(named.architecture, spec.weights, seed);
  HostShares shares;
  if (scenario.pools) {
    shares = host_shares(config, scenario);
    config.threads = shares.decode_threads;
    config.host_memory = shares.decode_memory;
  }
  make_engines(config, spec, scenario.replicas, *model.weights);
  replicas_ = engines_->replicas();
  if (scenario.pools) {
    config.threads = shares.prefill_threads;
    config.host_memory = shares.prefill_memory;
    start_prefill_pool(config, spec, *scenario.pools->prefill);
  }
  check_gpu(spec);
  loaded_ = std::move(wanted);
  console_.note(fmt::format("{}, {}: {}", spec.shape->id, model.origin, machine()));
  if (const std::string note = engines_->engine(0).note(); !note.empty()) console_.note(note);
  if (settings_.processes > 1 && config.device == exec::DeviceKind::cpu && configs::calibrated_tuning())
    console_.note("processes of a group do not use this machine's calibration, because their machines may differ");
  if (settings_.trace_ops)
    for (std::size_t i = 0; i < engines_->size(); ++i) engines_->engine(i).trace_ops();
}

exec::LiveEngines& MeasuredPoints::engines(const study::PointResult& point, const load::Scenario& scenario) {
  load(study_.point(point.index), scenario);
  return *engines_;
}

void MeasuredPoints::start_prefill_pool(exec::EngineConfig config, const study::PointSpec& spec,
                                        const load::Scenario& prefill) {
  config.kv_blocks = prefill.kv.blocks;
  config.block_tokens = prefill.kv.block_tokens;
  config.kv_dtype = executed(prefill.kv_dtype);
  config.weight_dtype = executed(prefill.weight_dtype);
  config.tp = prefill.tp;
  config.step_rows = step_rows(prefill);
  prefill_ = std::make_unique<PoolProcess>(exec::group::EngineOrder{.model = spec.model_name,
                                                                    .weights = spec.weights,
                                                                    .seed = spec.workload.seed,
                                                                    .digest = model_digest(spec.model_name),
                                                                    .replicas = prefill.replicas,
                                                                    .config = config});
  const std::vector<exec::ForwardDevice*>& devices = prefill_->engines().devices();
  replicas_.devices.insert(replicas_.devices.end(), devices.begin(), devices.end());
  path_ = prefill_->engines().measure_path();
  const double each = 1e-9 * path_.bandwidth / prefill.tp;  // a study states the bandwidth of one rank's link
  console_.note(
      fmt::format("prefill pool in another process: {} replica{} on {}; KV leaves it at {:.3g} GB/s after {:.3g} ms: "
                  "simulate with transfer: {{bandwidth: {:.3g} GB/s, launch: {:.3g} ms}}",
                  prefill.replicas, prefill.replicas == 1 ? "" : "s", prefill_->engines().description(),
                  1e-9 * path_.bandwidth, 1e3 * path_.launch_s, each, 1e3 * path_.launch_s));
}

// The measured speed contains all that is done for each block, and nothing limits the side that receives.
std::optional<load::TransferConfig> MeasuredPoints::measured_transfer(const load::Scenario& scenario) const {
  if (!scenario.pools || !prefill_) return {};
  load::TransferConfig transfer = scenario.pools->transfer;
  transfer.bandwidth = path_.bandwidth / scenario.pools->prefill->tp;
  transfer.source_rate = path_.bandwidth;
  transfer.target_rate = transfer.path = std::numeric_limits<double>::infinity();
  transfer.launch_s = path_.launch_s;
  transfer.descriptor_s = 0;
  return transfer;
}

void MeasuredPoints::make_engines(const exec::EngineConfig& config, const study::PointSpec& spec, std::int32_t replicas,
                                  const exec::WeightSource& weights) {
  if (leader_ == nullptr) {
    engines_ = std::make_unique<exec::LiveEngines>(config, replicas, weights);
    return;
  }
  leader_->load({.model = spec.model_name,
                 .weights = spec.weights,
                 .seed = spec.workload.seed,
                 .digest = model_digest(spec.model_name),
                 .replicas = replicas,
                 .config = config});
  engines_ = std::make_unique<exec::LiveEngines>(config, replicas, weights, leader_);
  for (const std::string& device : leader_->wait()) {
    if (settings_.device == exec::DeviceKind::cuda && device != engines_->engine(0).device())
      console_.warn(
          fmt::format("the processes run on different GPUs: {} and {}; a step takes as long as on the slowest",
                      engines_->engine(0).device(), device));
  }
}

// mpirun may notice a dead process first; it then ends the run with the signal that a user would send. A failure here
// may also be caused by the failure of another process. In all other cases this process itself has failed.
void MeasuredPoints::name_failure() {
  if (leader_ == nullptr) return;
  try {
    leader_->check(!failure_.empty());
    if (!failure_.empty()) failure_ = fmt::format("{}: {}", leader_->place(0), failure_);
  } catch (const DeviceError& error) {
    failure_ = error.what();
  }
}

exec::PromptSource MeasuredPoints::prompts_of(const study::PointSpec& spec) const {
  if (spec.prompts.empty()) return {spec.workload.seed, spec.shape->vocab};
  std::vector<std::vector<std::int32_t>> given;
  for (exec::Prompt& prompt : exec::read_prompts(
           spec.prompts, {.vocabulary = static_cast<std::int32_t>(spec.shape->vocab), .positions = 0, .generated = 0}))
    given.push_back(std::move(prompt.tokens));
  return exec::PromptSource(std::move(given));
}

sim::RunResult MeasuredPoints::run(const study::PointResult& point, const load::Scenario& scenario,
                                   const sim::RunOptions& options) {
  const study::PointSpec spec = study_.point(point.index);
  ops_.clear();
  sim::RunResult result;
  try {
    load(spec, scenario);
    const exec::PromptSource prompts = prompts_of(spec);
    exec::warm_up(scenario, replicas_, prompts);
    for (std::size_t i = 0; settings_.trace_ops && i < engines_->size(); ++i) engines_->engine(i).traces().clear();
    result = exec::measure_point(scenario, replicas_, prompts, options);  // kept whatever fails from here on
    failure_ = result.failure;
    name_failure();
    if (settings_.trace_ops && failure_.empty()) collect_ops(scenario);
    return result;
  } catch (const DeviceError& error) {
    failure_ = error.what();
    name_failure();
  }
  result.stopped = true;
  return result;
}

void MeasuredPoints::collect_ops(const load::Scenario& scenario) {
  std::vector<ReplicaTraces> replicas;
  for (std::size_t i = 0; i < engines_->size(); ++i) {
    std::vector<exec::OpTrace>& traces = engines_->engine(i).traces();
    replicas.push_back({static_cast<std::int32_t>(i) * scenario.tp, std::move(traces)});
    traces.clear();
  }
  ops_ = ops_csv(replicas, scenario);
}

std::string MeasuredPoints::machine() const {
  const std::string device = engines_->engine(0).description();
  const std::string all = engines_->size() > 1 ? fmt::format(", {} replicas", engines_->size()) : std::string();
  return (settings_.device == exec::DeviceKind::cuda ? device : fmt::format("{} ({})", processor_name(), device)) + all;
}

// Returns "NVIDIA H200 (sm_90) x 2", or "... x 1, shared by 2 ranks" if ranks share one.
std::string MeasuredPoints::gpus_label(std::int32_t tp, std::int32_t replicas) const {
  const std::string device = engines_->engine(0).device();
  if (settings_.processes > 1 || exec::too_few_gpus(tp, replicas, exec::gpu_count()).empty())
    return fmt::format("{} x {}", device, tp * replicas);
  return fmt::format("{} x 1, shared by {} ranks", device, tp * replicas);
}

void MeasuredPoints::label(study::PointResult& point) const {
  study::PointLabels& labels = point.labels;
  labels.source = "measured";
  labels.engine = engine_name(settings_.device);
  labels.dtype = model::name(executed(study_.point(point.index).weight_dtype));
  point.extrapolates.clear();  // nothing is predicted
  const bool own = settings_.device == exec::DeviceKind::cpu || settings_.processes > 1 ||
                   exec::too_few_gpus(labels.tp, labels.replicas, exec::gpu_count()).empty();
  if (!settings_.as_is || (labels.hardware == "this-machine" && own)) return;
  labels.hardware = settings_.device == exec::DeviceKind::cpu ? processor_name()
                    : engines_                                ? gpus_label(labels.tp, labels.replicas)
                                                              : labels.hardware;
  point.usd_per_hour.reset();  // the price is for hardware that was not used
}

}  // namespace plimsoll::cli

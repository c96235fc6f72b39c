// SPDX-License-Identifier: Apache-2.0
#include "study/run/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "model/op_cost.h"
#include "study/file/read_point.h"
#include "study/run/bands.h"
#include "study/run/estimate.h"

namespace plimsoll::study {
namespace {

constexpr sched::Blk kAmpleBlocks = sched::Blk{1} << 30U;  // a constant engine without a model cannot run out of KV
constexpr double kDefaultSwap = 4.0 * 1073741824.0;        // vLLM: --swap-space 4 (GiB)

// A queueing check needs neither a model nor a machine. The simulator gets placeholders, which do not affect it.
std::shared_ptr<const model::LlmShape> stand_in_shape() {
  model::LlmShape shape;
  shape.layers = shape.heads = shape.kv_heads = 1;
  shape.hidden = shape.head_dim = shape.intermediate = shape.vocab = 64;
  return std::make_shared<const model::LlmShape>(shape);
}

std::shared_ptr<const model::Accelerator> stand_in_accelerator() {
  model::Accelerator accelerator;
  accelerator.fp16 = accelerator.bf16 = accelerator.fp32 = FlopsPerSecond(1e14);
  accelerator.memory = accelerator.memory_visible = Bytes(80e9);
  accelerator.memory_bandwidth = BytesPerSecond(1e12);
  accelerator.host_link = BytesPerSecond(1e10);
  return std::make_shared<const model::Accelerator>(accelerator);
}

model::MemoryPlan plan_with(const PointSpec& spec, double memory_fraction) {
  const sched::Limits limits = sched::resolve_limits(spec.policy, longest_sequence(spec));
  return model::plan_memory({.shape = spec.shape.get(),
                             .accelerator = spec.hardware.accelerator.get(),
                             .engine = spec.engine.get(),
                             .weight_dtype = spec.weight_dtype,
                             .kv_dtype = spec.kv_dtype,
                             .tp = spec.deployment.tp,
                             .pp = spec.deployment.pp,
                             .step_tokens = limits.reserved_tokens,
                             .max_sequences = limits.reserved_sequences,
                             .block_tokens = sched::block_tokens(spec.policy),
                             .memory_fraction = memory_fraction});
}

double gigabytes(Bytes bytes) { return bytes.value / 1e9; }

sched::Blk unusable_blocks(const PointSpec& spec) { return sched::policy_info(spec.policy.policy).unusable_blocks; }

std::string misfit_text(const PointSpec& spec, const model::MemoryPlan& plan) {
  const std::int64_t tokens = (1 + unusable_blocks(spec)) * sched::block_tokens(spec.policy);
  return fmt::format(
      "{} in {} does not fit on {} at tp {}{}: {} offers {:.1f} GB to weights of {:.1f} GB, activations of {:.1f} GB, "
      "overhead of {:.1f} GB and {}; {:.2f} GB are missing",
      spec.shape->id, model::name(spec.weight_dtype), spec.hardware.accelerator->id, spec.deployment.tp,
      spec.deployment.pp > 1 ? fmt::format(", pp {}", spec.deployment.pp) : "",
      spec.hardware.this_machine ? "its share of this machine" : "a GPU", gigabytes(plan.budget),
      gigabytes(plan.weights), gigabytes(plan.activation), gigabytes(plan.overhead),
      unusable_blocks(spec) > 0 ? fmt::format("{} KV blocks", 1 + unusable_blocks(spec)) : "one KV block",
      gigabytes(plan.kv_per_token * static_cast<double>(tokens) - plan.kv));
}

// Checks what a reader would find first: the ways in which the model cannot be split, then the size of the instance,
// then unknown links.
std::optional<Impossible> degree_problem(const PointSpec& spec) {
  const Deployment& d = spec.deployment;
  const Where& where = spec.places.tp.file.empty() ? spec.places.study : spec.places.tp;
  if (spec.shape) {
    if (const std::string problem = model::tp_problem(*spec.shape, d.tp); !problem.empty()) {
      return Impossible{where, fmt::format("tp {} is impossible for {}: {}", d.tp, spec.shape->id, problem)};
    }
    if (const std::string problem = model::ep_problem(*spec.shape, d.tp, d.ep); !problem.empty())
      return Impossible{where, fmt::format("ep {} is impossible for {}: {}", d.ep, spec.shape->id, problem)};
    if (d.pp > spec.shape->layers) {
      return Impossible{
          where, fmt::format("pp {} is more than the {} layers of {}", d.pp, spec.shape->layers, spec.shape->id)};
    }
  }
  if (!spec.hardware.accelerator) return {};
  if (std::int64_t{d.tp} * d.pp > spec.hardware.count) {
    return Impossible{
        where,
        fmt::format("tp {} x pp {} needs {} accelerators, {} has {}: no replica spans instances (docs/limits.md)", d.tp,
                    d.pp, std::int64_t{d.tp} * d.pp, spec.hardware.label, spec.hardware.count)};
  }
  if (d.tp * d.pp > 1 && !spec.hardware.interconnect && !spec.engine->constant) {
    return Impossible{where,
                      fmt::format("no link between the accelerators of {} is known; state hardware: {{accelerator, "
                                  "count, interconnect}}; `plimsoll list interconnects` names the links",
                                  spec.hardware.label)};
  }
  return {};
}

std::optional<Impossible> dtype_problem(const PointSpec& spec) {
  if (!spec.hardware.accelerator || !spec.shape || spec.engine->constant) return {};
  const std::string problem = model::dtype_problem(*spec.hardware.accelerator, spec.weight_dtype);
  return problem.empty() ? std::nullopt : std::optional(Impossible{spec.places.dtype, problem});
}

// Counts whole instances, even if some of their accelerators are idle.
std::optional<Impossible> place_replicas(const PointSpec& spec, PointResult& result) {
  const Deployment& d = spec.deployment;
  const std::int32_t per_instance = std::max(1, spec.hardware.count / (d.tp * d.pp));
  const std::int32_t needed = (d.most_replicas() + per_instance - 1) / per_instance;
  if (d.instances && *d.instances < needed) {
    return Impossible{spec.places.instances,
                      fmt::format("{} replicas of tp {} need {} instances of {}, found instances: {}",
                                  d.most_replicas(), d.tp, needed, spec.hardware.label, *d.instances)};
  }
  result.instances = d.instances.value_or(needed);
  if (spec.hardware.accelerator && !spec.hardware.this_machine)
    result.gpus = std::int64_t{d.tp} * d.pp * d.most_replicas();
  result.gpus_per_instance = spec.hardware.count;
  if (spec.hardware.usd_per_hour) result.usd_per_hour = *spec.hardware.usd_per_hour * result.instances;
  return {};
}

struct Pool {
  sched::KvConfig kv;
  sched::Blk swap_blocks = 0;
  std::optional<Impossible> impossible;
};

bool has_memory_model(const PointSpec& spec) { return spec.shape && spec.hardware.accelerator; }

// Host memory for swapped blocks is stated for each GPU, and so are the bytes of a block.
sched::Blk swap_blocks(const PointSpec& spec) {
  if (spec.policy.preemption != sched::Preemption::swap) return 0;
  if (!has_memory_model(spec)) return kAmpleBlocks;
  const double block =
      sched::block_tokens(spec.policy) *
      model::kv_bytes_per_token_per_rank(*spec.shape, spec.kv_dtype, spec.deployment.tp, spec.deployment.pp).value;
  return static_cast<sched::Blk>(spec.policy.swap_space_bytes.value_or(kDefaultSwap) / block);
}

Pool kv_pool(const PointSpec& spec) {
  Pool pool;
  pool.kv.block_tokens = sched::block_tokens(spec.policy);
  pool.kv.prefix_caching = spec.policy.prefix_caching.value_or(false);
  const sched::Traits traits = sched::traits_of(spec.policy);
  pool.kv.partial_first = traits.partial_first;
  pool.kv.in_slots = traits.keeps_prompts;
  pool.swap_blocks = swap_blocks(spec);
  // A stated number of blocks replaces the memory plan.
  if (spec.policy.kv_blocks) {
    pool.kv.blocks = *spec.policy.kv_blocks;
    return pool;
  }
  // An engine without a memory model never runs out.
  pool.kv.blocks = kAmpleBlocks;
  if (has_memory_model(spec)) {
    const model::MemoryPlan plan = point_memory(spec);
    pool.kv.blocks = plan.kv_blocks;
    if (!plan.fits()) {
      const Where& where = spec.places.tp.file.empty() ? spec.places.model : spec.places.tp;
      pool.impossible = Impossible{where, misfit_text(spec, plan)};
    }
  }
  // For most policies the budget of KV tokens is the size of the pool. The others enforce it themselves.
  if (spec.policy.kv_token_budget && !sched::policy_info(spec.policy.policy).counts_kv_budget) {
    pool.kv.blocks =
        std::min(pool.kv.blocks, std::max<sched::Blk>(1, *spec.policy.kv_token_budget / pool.kv.block_tokens));
  }
  return pool;
}

PointLabels labels_of(const PointSpec& spec) {
  PointLabels labels;
  labels.model = spec.shape ? spec.shape->id : "";
  labels.hardware = spec.hardware.label;
  labels.engine = spec.engine->id;
  labels.dtype = model::name(spec.weight_dtype);
  labels.tp = spec.deployment.tp;
  labels.replicas = spec.deployment.replicas;
  labels.policy = sched::name(spec.policy.policy);
  labels.load_kind = load::load_kind(spec.workload.load);
  labels.load_value = load::load_value(spec.workload.load);
  if (const auto* gamma = std::get_if<load::GammaArrivals>(&spec.workload.load)) labels.arrival_cv = gamma->cv;
  const auto* const loop = std::get_if<load::ClosedLoop>(&spec.workload.load);
  if (loop != nullptr && loop->think.count() > 0) labels.turnaround_s = loop->think.count();
  return labels;
}

// If a prompt enters a step whole and beside the running decodes, a long prompt waits until enough other requests have
// finished.
std::string starved_prompts(const PointSpec& spec) {
  const auto lengths = mean_lengths(spec.workload);
  if (!sched::traits_of(spec.policy).fits_whole_prompts || !lengths ||
      std::holds_alternative<load::Script>(spec.workload.load))
    return {};
  const sched::Limits limits = sched::resolve_limits(spec.policy, longest_sequence(spec));
  const auto prompt = static_cast<std::int64_t>(std::llround(lengths->input));
  // The tokens of a step left for decodes if an average prompt is part of it.
  const std::int64_t beside = limits.step_tokens - prompt;
  const double load = load::load_value(spec.workload.load);
  const std::int64_t users = load::is_closed_loop(spec.workload.load)
                                 ? static_cast<std::int64_t>(std::ceil(load / spec.deployment.replicas))
                                 : limits.max_running;
  constexpr std::int64_t kFew = 16;  // batch in an open loop, which is not known before the run
  const std::int64_t running = std::min(users, limits.max_running) - 1;
  const bool closed = load::is_closed_loop(spec.workload.load);
  if (running < 1 || beside >= (closed ? running : std::min(running, kFew))) return {};
  const std::string key = fmt::format("raise scheduler.step_token_budget{} or set scheduler.chunked: true",
                                      closed ? fmt::format(" to {} or more", prompt + running) : "");
  if (beside < 0)
    return fmt::format("a prompt of {} tokens never fits a step of {}: {}", prompt, limits.step_tokens, key);
  return fmt::format(
      "a prompt of {} tokens fits a step of {} only while {} run, so TTFT includes the wait for others to finish; {}",
      prompt, limits.step_tokens,
      beside == 0 ? "no other sequences" : fmt::format("at most {} other sequences", beside), key);
}

// A drift must not make a request longer than the context or the pool.
load::OutputDrift output_drift(const PointSpec& spec, const sched::KvConfig& kv) {
  const auto* const closed = std::get_if<load::ClosedLoop>(&spec.workload.load);
  if (closed == nullptr || closed->drift <= 0) return {};
  return {closed->drift, std::min<std::int64_t>(longest_sequence(spec), kv.blocks * kv.block_tokens)};
}

// An engine with constant step times needs neither a model nor an accelerator. The placeholders for them are never
// priced.
load::Scenario scenario_of(const PointSpec& spec, const Pool& pool) {
  const bool parallel = spec.deployment.tp * spec.deployment.pp > 1;
  load::Scenario scenario{.shape = spec.shape ? spec.shape : stand_in_shape(),
                          .accelerator = spec.hardware.accelerator ? spec.hardware.accelerator : stand_in_accelerator(),
                          .interconnect = parallel ? spec.hardware.interconnect : nullptr,
                          .engine = spec.engine,
                          .front_end = spec.front_end,
                          .weight_dtype = spec.weight_dtype,
                          .kv_dtype = spec.kv_dtype,
                          .tp = spec.deployment.tp,
                          .pp = spec.deployment.pp,
                          .ep = spec.deployment.ep,
                          .replicas = spec.deployment.most_replicas(),
                          .router = spec.deployment.router,
                          .router_options = spec.deployment.router_options,
                          .policy = spec.policy,
                          .kv = pool.kv,
                          .workload = spec.workload,
                          .drift = output_drift(spec, pool.kv),
                          .limits = spec.limits,
                          .warmup = spec.warmup,
                          .replications = spec.replications,
                          .slo = spec.slo,
                          .stepwise = false};
  if (!spec.deployment.is_fixed()) scenario.life = life_of(spec);
  scenario.policy.model_max_len = spec.shape ? spec.shape->max_position : 0;
  scenario.policy.swap_blocks = pool.swap_blocks;
  return scenario;
}

}  // namespace

std::int64_t longest_sent(const load::WorkloadSpec& workload) {
  const auto most = [](const load::LengthMarginal& m) -> std::int64_t {
    const std::optional<std::int64_t> largest = largest_length(m);
    return largest ? *largest : std::llround(load::length_mean(m));
  };
  if (const auto* lengths = std::get_if<load::IndependentLengths>(&workload.lengths)) {
    const load::Conversation* const talk = load::conversation_of(workload.load);
    if (talk == nullptr) return most(lengths->input) + most(lengths->output);
    if (talk->longest > 0) return talk->longest;
    const std::int64_t turn = std::max(most(talk->added), most(talk->result)) + most(lengths->output);
    return most(lengths->input) + most(lengths->output) + (most(talk->turns) - 1) * turn;
  }
  std::int64_t longest = 0;
  for (const traces::TraceRecord& r : std::get<load::TracePairs>(workload.lengths).trace->records)
    longest = std::max(longest, std::int64_t{r.input_tokens} + r.output_tokens);
  return longest;
}

load::LifeConfig life_of(const PointSpec& spec) {
  const Deployment& d = spec.deployment;
  const std::int32_t tp = d.tp_is_max ? spec.hardware.count : d.tp;
  return {.initial = d.replicas,
          .slots_per_instance = std::max(1, spec.hardware.count / (tp * d.pp)),
          .autoscaling = d.autoscaling,
          .failures = d.failures};
}

void refuse_turns(const PointSpec& spec) {
  if (!load::has_turns(spec.workload.load)) return;
  throw InputError(spec.places.workload,
                   "sessions are simulated but not measured: measured runs do not wait for an answer to send the next "
                   "turn; allowed: loads without sessions, and traces with turns: recorded");
}

std::int64_t longest_sequence(const PointSpec& spec) {
  // A model that states no maximum gets a common one.
  constexpr std::int64_t kUnstated = 4096;
  if (spec.policy.max_total) return *spec.policy.max_total;
  return spec.shape && spec.shape->max_position > 0 ? spec.shape->max_position : kUnstated;
}

model::MemoryPlan point_memory(const PointSpec& spec) {
  model::MemoryPlan plan = plan_with(spec, spec.free_memory_fraction ? 1 : spec.policy.mem_fraction.value_or(-1));
  if (spec.free_memory_fraction) {
    // TensorRT-LLM gives the KV pool a share of the memory that weights and activations leave.
    if (plan.kv.value > 0) plan.kv = plan.kv * *spec.free_memory_fraction;
    plan.kv_blocks = static_cast<std::int64_t>(static_cast<double>(plan.kv_blocks) * *spec.free_memory_fraction);
  }
  plan.kv_blocks = std::max<std::int64_t>(0, plan.kv_blocks - unusable_blocks(spec));
  plan.kv_tokens = plan.kv_blocks * sched::block_tokens(spec.policy);
  return plan;
}

ResolvedPoint resolve_spec(PointSpec spec, ResolveFor use) {
  // Only the first problem is reported, because later checks would report its consequences.
  if (spec.deployment.tp_is_max) spec.deployment.tp = spec.hardware.count;
  ResolvedPoint point;
  point.result.labels = labels_of(spec);
  point.workload = spec.places.workload;
  if (!spec.scheduler_problem.empty()) point.impossible = Impossible{spec.places.scheduler, spec.scheduler_problem};
  if (!point.impossible) point.impossible = workload_problem(spec);
  if (!point.impossible) point.impossible = degree_problem(spec);
  if (!point.impossible && use == ResolveFor::simulation) point.impossible = dtype_problem(spec);
  if (!point.impossible) point.impossible = place_replicas(spec, point.result);
  if (point.impossible) return point;
  const Pool pool = kv_pool(spec);
  point.impossible = pool.impossible;
  if (point.impossible) return point;
  point.result.starved = starved_prompts(spec);
  const Extrapolation beyond = extrapolation_of(spec);
  point.result.extrapolates = beyond.reason;
  point.scenario = scenario_of(spec, pool);
  point.scenario->uncertainty = band_factors(*spec.engine, beyond.kinds);
  if (spec.prefill) add_prefill_pool(point, spec, use);
  return point;
}

ResolvedPoint resolve_point(const Study& study, std::size_t index, ResolveFor use) {
  ResolvedPoint point = resolve_spec(study.point(index), use);
  point.result.index = index;
  point.result.swept = study.swept_values(index);
  if (point.impossible) point.result.infeasible = point.impossible->reason;
  return point;
}

}  // namespace plimsoll::study

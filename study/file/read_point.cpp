// SPDX-License-Identifier: Apache-2.0
#include "study/file/read_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "model/graph_sizes.h"
#include "model/memory_plan.h"
#include "study/file/read_scheduler.h"
#include "study/file/section.h"

namespace plimsoll::study {
namespace {

using configs::Catalogue;
using configs::Node;
using Keys = std::vector<std::string_view>;

constexpr std::array<std::string_view, 23> kStudyKeys = {"study",        "model",
                                                         "dtype",        "kv_dtype",
                                                         "hardware",     "price_date",
                                                         "prices",       "engine",
                                                         "deployment",   "scheduler",
                                                         "workload",     "limits",
                                                         "slo",          "seed",
                                                         "replications", "sweep",
                                                         "models",       "search",
                                                         "weights",      "prompts",
                                                         "script_step",  "engine_front_end",
                                                         "engine_graphs"};

// A path is relative to the study's folder; a name is not.
void read_model_name(const std::string& text, const TraceStore& traces, PointSpec& spec) {
  const std::string path = traces.path_of(text);
  std::error_code error;
  spec.model_stated = text;
  spec.model_is_file =
      text.ends_with(".json") || (text.find('/') != std::string::npos && std::filesystem::exists(path, error));
  spec.model_name = spec.model_is_file ? path : text;
}

// Weights of 4 bits still use a 16-bit cache.
model::DType default_kv_dtype(model::DType weights, const model::EngineProfile& engine) {
  if (weights == model::DType::fp8 && engine.fp8_cache) return weights;
  const bool wide = weights == model::DType::fp32 || weights == model::DType::bf16 || weights == model::DType::fp16;
  return wide ? weights : model::DType::fp16;
}

void read_model(const Section& study, const Catalogue& catalogue, const TraceStore& traces, PointSpec& spec) {
  if (spec.engine->constant && !study.has("model")) return;
  // Only engines of constant cost need no model.
  const Node name = study.need("model", "llama-2-7b");
  read_model_name(name.as_string(), traces, spec);
  spec.shape = catalogue.model(spec.model_name, name.where());
  spec.places.model = name.where();
  spec.notes.insert(spec.notes.end(), spec.shape->notes.begin(), spec.shape->notes.end());
}

bool is_sixteen_bit(model::DType dtype) { return dtype == model::DType::fp16 || dtype == model::DType::bf16; }

// Uses the study's type, else the checkpoint's. The checkpoint's scales and exceptions hold only for its own type.
void read_weight_dtype(const Section& study, PointSpec& spec) {
  const auto stated = study.find("dtype");
  if (stated) spec.weight_dtype = stated->as_dtype();
  spec.places.dtype = study.where(stated ? "dtype" : "model");
  if (!spec.shape || !spec.shape->checkpoint) return;
  const model::Checkpoint& checkpoint = *spec.shape->checkpoint;
  if (!stated) spec.weight_dtype = checkpoint.dtype;
  // A bf16 checkpoint runs in fp16 on an accelerator that supports only fp16.
  const bool no_bf16 = spec.hardware.accelerator && spec.hardware.accelerator->bf16.value <= 0 &&
                       spec.hardware.accelerator->fp16.value > 0;
  if (!stated && checkpoint.dtype == model::DType::bf16 && no_bf16) {
    spec.weight_dtype = model::DType::fp16;
    spec.notes.push_back(
        fmt::format("the checkpoint is bf16, which {} does not support: using fp16", spec.hardware.accelerator->id));
  }
  if (spec.weight_dtype == checkpoint.dtype) {
    spec.notes.insert(spec.notes.end(), checkpoint.notes.begin(), checkpoint.notes.end());
    return;
  }
  if (stated && !(is_sixteen_bit(spec.weight_dtype) && is_sixteen_bit(checkpoint.dtype)))
    spec.notes.push_back(fmt::format("using dtype {} as stated; the checkpoint's is {} ({})",
                                     model::name(spec.weight_dtype), model::name(checkpoint.dtype), checkpoint.format));
  // A copy without the checkpoint's scales and exceptions, which do not apply to another type.
  model::LlmShape shape = *spec.shape;
  shape.checkpoint.reset();
  spec.shape = std::make_shared<const model::LlmShape>(std::move(shape));
}

// Adds a note for weight types in which the accelerator does not compute.
void note_widened(PointSpec& spec) {
  if (!spec.hardware.accelerator) return;
  const model::Accelerator& a = *spec.hardware.accelerator;
  if (spec.weight_dtype == model::DType::nvfp4 && a.fp4.value <= 0)
    spec.notes.push_back(
        fmt::format("{} has no 4-bit units: nvfp4 weights are read in 4 bits and computed in 16", a.id));
  if (spec.weight_dtype == model::DType::mxfp4)
    spec.notes.emplace_back("mxfp4 weights are read in 4 bits and computed in 16");
}

// This project's executor rounds weights itself if the checkpoint has another type.
void note_stored(PointSpec& spec) {
  if (!spec.shape || spec.engine->id != "plimsoll-cpu") return;
  model::LlmShape shape = model::stored_shape(*spec.shape, spec.weight_dtype);
  if (shape == *spec.shape) return;
  spec.notes.push_back(fmt::format("the executor stores the weights {}", shape.checkpoint->format));
  spec.shape = std::make_shared<const model::LlmShape>(std::move(shape));
}

void read_dtypes(const Section& study, PointSpec& spec) {
  read_weight_dtype(study, spec);
  note_stored(spec);
  note_widened(spec);
  const auto kv_dtype = study.find("kv_dtype");
  const bool own = spec.shape && spec.shape->checkpoint && spec.shape->checkpoint->kv_dtype;
  if (kv_dtype)
    spec.kv_dtype = kv_dtype->as_dtype();
  else
    spec.kv_dtype = own ? *spec.shape->checkpoint->kv_dtype : default_kv_dtype(spec.weight_dtype, *spec.engine);
  if (own && !kv_dtype)
    spec.notes.push_back(fmt::format("the KV cache is {}, as in the checkpoint", model::name(spec.kv_dtype)));
}

std::shared_ptr<const model::EngineProfile> constant_profile(const model::ConstantCost& cost) {
  model::EngineProfile profile;
  profile.id = cost.rates ? "rates" : "constant";
  profile.constant = cost;
  // A textbook queue: one request at a time unless the study says otherwise.
  profile.scheduler_policy = "none";
  profile.calibrated = true;  // a cost stated in the study is not an estimate
  return std::make_shared<const model::EngineProfile>(profile);
}

// Reads tokens per second, as in 73.7k or 14800.
Seconds read_token_time(const Node& node) {
  std::string text = node.as_string();
  double factor = 1;
  if (text.ends_with('k') || text.ends_with('M')) {
    factor = text.back() == 'k' ? 1e3 : 1e6;
    text.pop_back();
  }
  const auto rate = configs::parse_number(text);
  if (rate && *rate > 0 && *rate * factor <= 1e12) return Seconds(1 / (*rate * factor));
  node.fail(fmt::format("found '{}', expected tokens per second above 0, as in 73.7k or 14800", node.as_string()));
}

// A pool needs only the rate of its own kind of work. The other kind, which is rare there, gets the same rate.
model::ConstantCost::Rates read_rates(const Node& node) {
  const Section section(node, Keys{"prefill_tokens_per_s", "decode_tokens_per_s"});
  const auto prefill = section.find("prefill_tokens_per_s"), decode = section.find("decode_tokens_per_s");
  if (!prefill && !decode) node.fail("expected rates: {prefill_tokens_per_s, decode_tokens_per_s}, or one of them");
  model::ConstantCost::Rates rates;
  rates.prompt_token = read_token_time(prefill ? *prefill : *decode);
  rates.decode = read_token_time(decode ? *decode : *prefill);
  return rates;
}

std::shared_ptr<const model::EngineProfile> read_constant(const Node& engine) {
  const Section outer(engine, Keys{"constant"});
  const Section section(outer.need("constant", "{prefill: 0 s, decode: 10 ms}"),
                        Keys{"prefill", "decode", "batch", "rates"});
  model::ConstantCost cost;
  if (const auto rates = section.find("rates")) {
    for (const std::string_view key : {"prefill", "decode", "batch"})
      if (section.has(key)) section.find(key)->fail("rates exclude all other costs");
    cost.rates = read_rates(*rates);
    return constant_profile(cost);
  }
  cost.batch = section.time("batch");
  if (cost.batch && (section.has("prefill") || section.has("decode"))) {
    throw InputError(section.where("batch"), "batch excludes prefill and decode: it is the cost of a whole batch");
  }
  if (!cost.batch) {
    static_cast<void>(section.need("decode", "10 ms"));
    cost.prefill = section.time("prefill").value_or(Seconds(0));
    cost.decode = *section.time("decode");
  }
  return constant_profile(cost);
}

std::shared_ptr<const configs::Engine> read_engine(const Section& study, const Catalogue& catalogue, PointSpec& spec) {
  const auto node = study.find("engine");
  spec.places.engine = study.where("engine");
  if (node && node->is_map()) {
    configs::Engine engine;
    engine.profile = spec.engine = read_constant(*node);
    return std::make_shared<const configs::Engine>(engine);
  }
  const auto engine =
      node ? catalogue.engine(node->as_string(), node->where()) : catalogue.engine("ideal", study.node().where());
  spec.engine = engine->profile;
  spec.engine_name = node ? node->as_string() : engine->profile->id;
  return engine;
}

// Returns the set-up of a front end in the engine's profile (docs/catalogue.md): the engine whose runs gave its times,
// and how it derives the server's limits. If these keys are absent, the times are this engine's, and there is no limit.
Node set_up_of(const Catalogue& catalogue, const PointSpec& spec) {
  return catalogue.document("engines", spec.engine->id)
      .root()
      .at("front_ends")
      .at(model::kFrontEndNames.at(static_cast<std::size_t>(spec.front_end)));
}

// If the front end's time with this engine is unknown, it must not be predicted as zero.
void read_front_end(const Section& study, const Catalogue& catalogue, PointSpec& spec) {
  const auto node = study.find("engine_front_end");
  if (!node) return;
  spec.front_end = static_cast<model::FrontEnd>(node->as_one_of(model::kFrontEndNames));
  if (spec.front_end == model::FrontEnd::none) return;
  if (spec.engine->front_ends.count(spec.front_end) > 0) {
    const auto stated = set_up_of(catalogue, spec).find("measured_with");
    const std::string from = stated ? stated->as_string() : fitted_engine(spec);
    if (from != spec.engine->id)
      spec.load_notes.push_back(fmt::format("engine {} was not measured behind {}; the added time is taken from {}",
                                            spec.engine->id, node->as_string(), from));
    return;
  }
  node->fail(fmt::format("found '{}', but engine {} was not measured behind it; allowed: none", node->as_string(),
                         spec.engine->id));
}

// A name, or `{policy: scored, prefix: 2, …}`: a policy accepts only its own options.
void read_router(const Node& node, Deployment& deployment) {
  if (!node.is_map()) {
    deployment.router = static_cast<sched::RouterKind>(node.as_one_of(sched::router_names()));
    return;
  }
  constexpr std::string_view kPolicy = "policy";
  const auto policy = node.find(kPolicy);
  if (!policy) node.fail("key 'policy' is missing; write for example 'router: {policy: scored, prefix: 2}'");
  deployment.router = static_cast<sched::RouterKind>(policy->as_one_of(sched::router_names()));
  Keys keys{kPolicy};
  const auto own = sched::router_info(deployment.router).options;
  keys.insert(keys.end(), own.begin(), own.end());
  const Section section(node, keys);
  sched::RouterOptions& options = deployment.router_options;
  constexpr double kMost = 1e6;
  for (const auto& [key, value] : {std::pair("prefix", &options.prefix),
                                   {"queue", &options.queue},
                                   {"kv", &options.kv},
                                   {"active", &options.active},
                                   {"no_hit_lru", &options.no_hit_lru},
                                   {"overlap", &options.overlap},
                                   {"temperature", &options.temperature}})
    if (const auto number = section.find(key)) *value = number->as_number(0, kMost);
  if (const auto stale = section.time("stale")) options.report_every = std::llround(stale->count() * 1e9);
  options.session_cap = section.whole("cap", 0);
  options.threshold = section.whole("threshold", 0).value_or(options.threshold);
  options.clients = section.whole("clients", 1, kMaxReplicas).value_or(options.clients);
  for (const auto& [key, value] :
       {std::pair("match_blocks", &options.match_blocks), {"known_blocks", &options.known_blocks}})
    *value = static_cast<std::size_t>(section.whole(key, 1).value_or(static_cast<std::int64_t>(*value)));
}

void read_deployment(const Section& study, PointSpec& spec) {
  const auto node = study.find("deployment");
  if (!node) return;
  const Section section(*node, Keys{"tp", "pp", "ep", "replicas", "router", "instances", "autoscaling", "failures",
                                    "pools", "transfer", "local_prefill"});
  for (const std::string_view key : {"transfer", "local_prefill"})
    if (section.has(key) && !section.has("pools"))
      section.find(key)->fail(fmt::format("'{}' needs deployment.pools", key));
  Deployment& deployment = spec.deployment;
  const auto tp = section.find("tp");
  // "max" depends on the instance, which a sweep may change; it is settled when the point is resolved.
  deployment.tp_is_max = tp && tp->is_scalar() && tp->as_string() == "max";
  if (tp && !deployment.tp_is_max) deployment.tp = static_cast<std::int32_t>(tp->as_integer(1, kMaxDegree));
  deployment.pp = static_cast<std::int32_t>(section.whole("pp", 1, kMaxDegree).value_or(1));
  deployment.ep = static_cast<std::int32_t>(section.whole("ep", 1, kMaxDegree).value_or(1));
  deployment.replicas = static_cast<std::int32_t>(section.whole("replicas", 1, kMaxReplicas).value_or(1));
  if (const auto instances = section.whole("instances", 1, kMaxReplicas)) {
    deployment.instances = static_cast<std::int32_t>(*instances);
  }
  if (const auto router = section.find("router")) read_router(*router, deployment);
  if (const auto scaling = section.find("autoscaling")) deployment.autoscaling = read_autoscaling(*scaling);
  if (const auto failures = section.find("failures")) deployment.failures = read_failures(*failures);
  spec.places.tp = section.where("tp");
  spec.places.replicas = section.where("replicas");
  spec.places.instances = section.where("instances");
  spec.places.autoscaling = section.where("autoscaling");
  spec.places.failures = section.where("failures");
}

// Sizes that depend on the scheduler's limits are settled after those have been read.
void read_graphs(const Section& study, PointSpec& spec) {
  const auto node = study.find("engine_graphs");
  if (!node && spec.engine->graph_rule == model::GraphRule::off) return;
  auto engine = std::make_shared<model::EngineProfile>(*spec.engine);
  if (node) configs::read_graph_sizes(*node, *engine);
  const sched::Limits limits = sched::resolve_limits(spec.policy);
  const Bytes memory = spec.hardware.accelerator ? spec.hardware.accelerator->memory : Bytes(0);
  if (engine->graph_rule != model::GraphRule::off)
    engine->graph_sizes =
        model::graph_sizes(engine->graph_rule, {limits.max_running, limits.step_tokens, memory, spec.deployment.tp});
  if (engine->constant) spec.notes.emplace_back("engine_graphs has no effect: the engine's steps take a constant time");
  spec.engine = std::move(engine);
}

// Returns the TP or PP degree of a product's setting among the scheduler's settings; none if the deployment states it.
std::optional<SchedulerSettings::Degree> degree_of(const std::optional<SchedulerSettings::Degree>& degree, bool stated,
                                                   std::int32_t value) {
  if (!degree || !stated) return degree;
  if (degree->value >= 0 && degree->value != value) {
    throw InputError(degree->where, fmt::format("found {}, but deployment states {}; state one", degree->value, value));
  }
  return {};
}

bool takes_larger_defaults(const configs::Engine& engine, const Hardware& hardware) {
  if (!engine.larger || !hardware.accelerator || hardware.accelerator->memory.value < engine.larger->memory)
    return false;
  const auto& except = engine.larger->except;
  return std::none_of(except.begin(), except.end(),
                      [&](const std::string& id) { return hardware.accelerator->id.starts_with(id); });
}

void read_scheduler_of(const Section& study, const configs::Engine& engine, PointSpec& spec) {
  std::vector<Node> maps;
  if (engine.scheduler) maps.push_back(*engine.scheduler);
  if (takes_larger_defaults(engine, spec.hardware)) maps.push_back(engine.larger->scheduler);
  const auto node = study.find("scheduler");
  SchedulerSettings settings = read_scheduler(node ? &*node : nullptr, maps, engine.profile->scheduler_policy);
  spec.policy = settings.config;
  spec.free_memory_fraction = settings.free_memory_fraction;
  spec.scheduler_problem = settings.problem;
  spec.notes.insert(spec.notes.end(), settings.notes.begin(), settings.notes.end());
  spec.places.scheduler = study.where("scheduler");
  const auto deployment = study.find("deployment");
  Deployment& d = spec.deployment;
  if (const auto tp = degree_of(settings.tp, deployment && deployment->has("tp"), d.tp)) {
    d.tp_is_max = tp->value < 0;
    if (!d.tp_is_max) d.tp = tp->value;
    spec.places.tp = tp->where;
  }
  const auto pp = degree_of(settings.pp, deployment && deployment->has("pp"), d.pp);
  if (pp && pp->value >= 0) d.pp = pp->value;
}

// Returns whether the study itself states this limit of the scheduler, under any of its names.
bool states_limit(const Section& study, const PointSpec& spec,
                  std::optional<std::int64_t> sched::PolicyConfig::*limit) {
  const auto node = study.find("scheduler");
  return node && (read_scheduler(&*node, {}, spec.engine->scheduler_policy).config.*limit).has_value();
}

// Returns the longest prompt of a workload; nullopt if there is no limit.
std::optional<std::int64_t> longest_prompt(const load::WorkloadSpec& workload) {
  if (const auto* lengths = std::get_if<load::IndependentLengths>(&workload.lengths))
    return largest_length(lengths->input);
  std::int64_t longest = 0;
  for (const traces::TraceRecord& r : std::get<load::TracePairs>(workload.lengths).trace->records)
    longest = std::max<std::int64_t>(longest, r.input_tokens);
  return longest;
}

// A front end's set-up derives limits of the server from the workload's lengths and number of users. This needs a
// closed loop, which states its users, and the engine's own policy, for which it was measured.
void settle_set_up(const Section& study, const Catalogue& catalogue, PointSpec& spec) {
  const auto* const closed = std::get_if<load::ClosedLoop>(&spec.workload.load);
  if (spec.front_end == model::FrontEnd::none || closed == nullptr ||
      sched::name(spec.policy.policy) != spec.engine->scheduler_policy)
    return;
  const Node set_up = set_up_of(catalogue, spec);
  const std::int64_t users = (closed->concurrency + spec.deployment.replicas - 1) / spec.deployment.replicas;
  const std::string_view name = model::kFrontEndNames.at(static_cast<std::size_t>(spec.front_end));
  const auto beyond = set_up.find("budget_beyond");
  const std::optional<std::int64_t> prompt = longest_prompt(spec.workload);
  if (beyond && prompt && !states_limit(study, spec, &sched::PolicyConfig::step_token_budget)) {
    spec.policy.step_token_budget = *prompt + users + beyond->as_integer();
    spec.load_notes.push_back(
        fmt::format("scheduler.step_token_budget is {}: the longest prompt + {} users + {}, as the measured servers "
                    "behind {} were set up; state it if your set-up differs",
                    *spec.policy.step_token_budget, users, beyond->as_integer(), name));
  }
  const auto less = set_up.find("one_slot_less");
  const auto is_model = [&](const configs::Item& id) { return spec.shape && id.value.as_string() == spec.shape->id; };
  if (!less || users < 2 || states_limit(study, spec, &sched::PolicyConfig::max_running)) return;
  const std::vector<configs::Item> models = less->items();
  if (std::none_of(models.begin(), models.end(), is_model)) return;
  spec.policy.max_running = users - 1;
  spec.load_notes.push_back(fmt::format(
      "scheduler.max_running is {}: behind {}, the measured servers of {} ran one sequence fewer than there "
      "were users; state it if your set-up differs",
      users - 1, name, spec.shape->id));
}

}  // namespace

std::span<const std::string_view> study_keys() { return kStudyKeys; }

namespace {
PointSpec read_one_pool(const Node& root, const Catalogue& catalogue, TraceStore& traces) {
  const Section study(root, kStudyKeys);
  PointSpec spec;
  spec.name = study.text("study").value_or("");
  spec.places.study = root.where();
  // Later sections use earlier ones: the engine's defaults, then the model, then the hardware.
  const auto engine = read_engine(study, catalogue, spec);
  read_front_end(study, catalogue, spec);
  read_model(study, catalogue, traces, spec);
  read_hardware(study, catalogue, spec);
  read_dtypes(study, spec);
  read_deployment(study, spec);
  read_scheduler_of(study, *engine, spec);
  read_graphs(study, spec);
  settle_this_machine(spec);
  Seconds script_step(1e-3);
  if (const auto step = study.find("script_step")) script_step = read_positive_time(*step);
  read_workload(study.need("workload", "{load: {closed_loop: {concurrency: 32}}, lengths: {input: 256, output: 256}}"),
                script_step, traces, spec);
  settle_set_up(study, catalogue, spec);
  if (const auto limits = study.find("limits")) spec.limits = read_limits(*limits);
  if (const auto slo = study.find("slo")) spec.slo = read_slo(*slo);
  if (const auto search = study.find("search")) spec.search = read_search(*search);
  spec.workload.seed = static_cast<std::uint64_t>(study.whole("seed", 0, (std::int64_t{1} << 53) - 1).value_or(1));
  spec.replications = static_cast<std::int32_t>(study.whole("replications", 1, 10'000).value_or(1));
  if (std::holds_alternative<load::Script>(spec.workload.load) && (study.has("limits") || study.has("replications"))) {
    spec.load_notes.emplace_back("a script runs once and its clients wait: 'limits' and 'replications' have no effect");
  }
  const std::string weights = study.text("weights").value_or("random"), prompts = study.text("prompts").value_or("");
  if (weights != "random") spec.weights = traces.path_of(weights);
  if (!prompts.empty()) spec.prompts = traces.path_of(prompts);
  return spec;
}
}  // namespace

PointSpec read_point(const Node& root, const Catalogue& catalogue, TraceStore& traces) {
  if (!has_pools(root)) {
    PointSpec alone = read_one_pool(root, catalogue, traces);
    check_pool_search(root, alone);
    return alone;
  }
  PointSpec spec = read_one_pool(pool_study(root, "decode", catalogue), catalogue, traces);
  PointSpec prefill = read_one_pool(pool_study(root, "prefill", catalogue), catalogue, traces);
  for (const std::string& note : prefill.notes)
    if (std::find(spec.notes.begin(), spec.notes.end(), note) == spec.notes.end()) spec.notes.push_back(note);
  spec.in_pools = prefill.in_pools = true;
  settle_shared_machine(spec, prefill);
  note_priorities(spec, prefill);
  if (load::script_of(spec.workload) != nullptr) spec.limits = {};
  spec.prefill = std::make_shared<const PointSpec>(std::move(prefill));
  read_handover(root, spec);
  return spec;
}

}  // namespace plimsoll::study

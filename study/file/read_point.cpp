// SPDX-License-Identifier: Apache-2.0
#include "study/file/read_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "configs/hardware_name.h"
#include "model/graph_sizes.h"
#include "model/memory_plan.h"
#include "study/file/read_scheduler.h"
#include "study/file/section.h"

namespace plimsoll::study {
namespace {

using configs::Catalogue;
using configs::Node;
using Keys = std::vector<std::string_view>;

constexpr std::int32_t kMaxDegree = 4096;
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
  // Only engines of constant cost do without a model.
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

Hardware read_instance(const Node& node, const std::string& price_date, const Catalogue& catalogue) {
  const std::string name = node.as_string();
  const auto instance = catalogue.instance(name, node.where());
  const bool sagemaker = name.starts_with("ml.");
  Hardware hardware;
  hardware.label = (sagemaker ? "ml." : "") + instance->id;
  hardware.accelerator = catalogue.accelerator(instance->accelerator, node.where());
  hardware.count = instance->count;
  if (instance->count > 1)
    hardware.interconnect = catalogue.link(*hardware.accelerator, instance->interconnect, node.where());
  // SageMaker has prices of its own for the same machine, above those of the cloud.
  const auto price = sagemaker ? instance->sagemaker : instance->price(price_date);
  if (!price) return hardware;
  hardware.usd_per_hour = price->usd_per_hour;
  hardware.price_date = price->date;
  hardware.price_note = fmt::format("{} {}, {}", sagemaker ? "SageMaker on demand" : instance->cloud + " on demand",
                                    price->date, instance->region);
  return hardware;
}

double read_usd(const Node& node) {
  return configs::parse_number(node.as_string()) ? node.as_number(0, 1e9) : node.as_usd().value;
}

// The user's prices override those of the catalogue. They are stated per instance or per accelerator.
void read_prices(const Section& study, const Catalogue& catalogue, Hardware& hardware) {
  constexpr std::string_view kGpuHour = "gpu_hour";
  const auto prices = study.find("prices");
  if (!prices) return;
  for (const configs::Item& item : prices->items()) {
    const double usd = read_usd(item.value);
    if (item.key == kGpuHour) {
      hardware.usd_per_hour = usd * hardware.count;
      hardware.price_note = fmt::format("own price of {} USD per accelerator and hour", configs::number_text(usd));
      hardware.price_date.clear();
    } else {
      // Misspelt names are refused here, even where another hardware is chosen.
      static_cast<void>(catalogue.instance(item.key, item.key_where));
    }
  }
  for (const configs::Item& item : prices->items()) {
    if (item.key == kGpuHour) continue;
    const std::string label =
        (item.key.starts_with("ml.") ? "ml." : "") + catalogue.instance(item.key, item.key_where)->id;
    if (label != hardware.label) continue;
    hardware.usd_per_hour = read_usd(item.value);
    hardware.price_note = "own price";
    hardware.price_date.clear();
  }
}

bool is_this_machine(const Node& node) {
  return node.is_scalar() && configs::canonical_name(node.as_string()) == "this-machine";
}

// How many ranks share the machine is not known yet: see settle_this_machine.
Hardware read_this_machine(const Node& node, const Catalogue& catalogue, const PointSpec& spec) {
  Hardware hardware;
  hardware.label = "this-machine";
  hardware.this_machine = catalogue.this_machine(spec.engine->id == "plimsoll-cuda" ? "cuda" : "cpu", node.where());
  hardware.accelerator = hardware.this_machine->shares.front().accelerator;
  hardware.interconnect = hardware.this_machine->interconnect;
  hardware.count = hardware.this_machine->cores;
  return hardware;
}

// All ranks of all replicas share the machine. Its own engine was measured together with it.
void settle_this_machine(PointSpec& spec) {
  Hardware& hardware = spec.hardware;
  if (!hardware.this_machine) return;
  const Deployment& d = spec.deployment;
  const std::int32_t tp = d.tp_is_max ? hardware.count : d.tp;
  const std::int64_t ranks = std::int64_t{tp} * d.pp * d.replicas;
  hardware.count = static_cast<std::int32_t>(std::clamp<std::int64_t>(ranks, hardware.count, kMaxReplicas));
  const configs::ThisMachine::Share share =
      configs::share_of(*hardware.this_machine, static_cast<std::int32_t>(std::min<std::int64_t>(ranks, kMaxReplicas)),
                        spec.weight_dtype);
  hardware.accelerator = share.accelerator;
  if (share.interconnect) hardware.interconnect = share.interconnect;
  const auto& own = hardware.this_machine->engine;
  if (own && own->id == spec.engine->id) spec.engine = own;
}

void settle_machine(Hardware& hardware, const Catalogue& catalogue, const std::string& link, const Where& where) {
  hardware.label = fmt::format("{} x {}", hardware.accelerator->id, hardware.count);
  if (!link.empty() || hardware.count > 1) {  // a single GPU needs no interconnect
    hardware.interconnect = catalogue.link(*hardware.accelerator, link, where);
  }
}

Hardware read_machine(const Node& node, const Catalogue& catalogue) {
  const Section section(node, Keys{"accelerator", "count", "interconnect", "usd_per_hour"});
  const Node accelerator = section.need("accelerator", "a100-sxm-40gb");
  Hardware hardware;
  hardware.accelerator = accelerator.is_map() ? catalogue.accelerator(accelerator)
                                              : catalogue.accelerator(accelerator.as_string(), accelerator.where());
  hardware.count = static_cast<std::int32_t>(section.whole("count", 1, kMaxDegree).value_or(1));
  settle_machine(hardware, catalogue, section.text("interconnect").value_or(""), section.where("interconnect"));
  if (const auto usd = section.find("usd_per_hour")) {
    hardware.usd_per_hour = read_usd(*usd);
    hardware.price_note = "own price";
  }
  return hardware;
}

// Reads an instance's name, or accelerators as in "8xH100".
Hardware read_named(const Node& node, const std::string& month, const Catalogue& catalogue) {
  const std::string name = node.as_string();
  if (catalogue.has_instance(name)) return read_instance(node, month, catalogue);
  const auto found = configs::find_accelerators(catalogue, name);
  if (!found) {
    const auto counted = configs::parse_accelerator_count(name);
    catalogue.refuse_hardware(counted && counted->count > 1 ? counted->accelerator : name, node.where());
  }
  if (found->count > kMaxDegree)
    node.fail(fmt::format("found {} accelerators, expected at most {}", found->count, kMaxDegree));
  Hardware hardware;
  hardware.accelerator = catalogue.accelerator(found->accelerator, node.where());
  hardware.count = static_cast<std::int32_t>(found->count);
  settle_machine(hardware, catalogue, "", node.where());
  return hardware;
}

// Reads a month such as "2025-04"; empty: the newest prices.
std::string read_month(const Section& study) {
  const auto node = study.find("price_date");
  if (!node) return {};
  const std::string text = node->as_string();
  const auto digits = [&text](std::size_t from, std::size_t to) {
    return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(from), text.begin() + static_cast<std::ptrdiff_t>(to),
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  // Months compare as text, so the form is checked exactly.
  const bool shaped = text.size() == 7 && text[4] == '-' && digits(0, 4) && digits(5, 7);
  if (!shaped || text.substr(5) < "01" || text.substr(5) > "12") {
    node->fail(fmt::format("found {}, expected a month, as in 2025-04", node->to_text()));
  }
  return text;
}

void read_hardware(const Section& study, const Catalogue& catalogue, PointSpec& spec) {
  if (spec.engine->constant && !study.has("hardware")) return;
  const Node node = study.need("hardware", "ml.g5.12xlarge");
  const std::string month = read_month(study);
  if (node.is_map())
    spec.hardware = read_machine(node, catalogue);
  else if (is_this_machine(node))
    spec.hardware = read_this_machine(node, catalogue, spec);
  else
    spec.hardware = read_named(node, month, catalogue);
  spec.places.hardware = node.where();
  if (!node.is_map() || !node.has("usd_per_hour")) read_prices(study, catalogue, spec.hardware);
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

// A pool needs the rate of its own work only; the other kind, which is rare there, then takes as long.
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

// What a front end's set-up says in the engine's profile (docs/catalogue.md): whose runs gave its times, and how it
// derives the server's limits. Absent keys: this engine's, and no limit.
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
  const Section section(*node, Keys{"tp", "pp", "replicas", "router", "instances", "autoscaling", "failures", "pools",
                                    "transfer", "local_prefill"});
  for (const std::string_view key : {"transfer", "local_prefill"})
    if (const auto value = section.find(key)) value->fail(fmt::format("'{}' needs deployment.pools", key));
  Deployment& deployment = spec.deployment;
  const auto tp = section.find("tp");
  // "max" depends on the instance, which a sweep may change; it is settled when the point is resolved.
  deployment.tp_is_max = tp && tp->is_scalar() && tp->as_string() == "max";
  if (tp && !deployment.tp_is_max) deployment.tp = static_cast<std::int32_t>(tp->as_integer(1, kMaxDegree));
  deployment.pp = static_cast<std::int32_t>(section.whole("pp", 1, kMaxDegree).value_or(1));
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

// The sizes of vLLM's graphs depend on the scheduler's limits, so they are settled after it.
void read_graphs(const Section& study, PointSpec& spec) {
  const auto node = study.find("engine_graphs");
  if (!node && !spec.engine->vllm_graph_sizes) return;
  auto engine = std::make_shared<model::EngineProfile>(*spec.engine);
  if (node) configs::read_graph_sizes(*node, *engine);
  const sched::Limits limits = sched::resolve_limits(spec.policy);
  if (engine->vllm_graph_sizes) engine->graph_sizes = model::vllm_graph_sizes(limits.max_running, limits.step_tokens);
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

// Whether the study itself states this limit of the scheduler, under any of its names.
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

// A front end's set-up derives limits of the server from the lengths and users that it is set up for. Only a closed
// loop states its users, and only the engine's own policy was measured so.
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
                    "behind {} were set up; state it for another set-up",
                    *spec.policy.step_token_budget, users, beyond->as_integer(), name));
  }
  const auto less = set_up.find("one_slot_less");
  const auto is_model = [&](const configs::Item& id) { return spec.shape && id.value.as_string() == spec.shape->id; };
  if (!less || users < 2 || states_limit(study, spec, &sched::PolicyConfig::max_running)) return;
  const std::vector<configs::Item> models = less->items();
  if (std::none_of(models.begin(), models.end(), is_model)) return;
  spec.policy.max_running = users - 1;
  spec.load_notes.push_back(
      fmt::format("scheduler.max_running is {}: behind {}, the measured servers of {} ran one sequence less than there "
                  "were users; state it for another set-up",
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
  if (!has_pools(root)) return read_one_pool(root, catalogue, traces);
  PointSpec spec = read_one_pool(pool_study(root, "decode", catalogue), catalogue, traces);
  const PointSpec prefill = read_one_pool(pool_study(root, "prefill", catalogue), catalogue, traces);
  for (const std::string& note : prefill.notes)
    if (std::find(spec.notes.begin(), spec.notes.end(), note) == spec.notes.end()) spec.notes.push_back(note);
  spec.prefill = std::make_shared<const PointSpec>(prefill);
  read_handover(root, spec);
  return spec;
}

}  // namespace plimsoll::study

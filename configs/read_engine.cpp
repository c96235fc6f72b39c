// SPDX-License-Identifier: Apache-2.0
// Reads engine profiles (configs/README.md).
#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <tuple>
#include <utility>

#include "configs/catalogue.h"

namespace plimsoll::configs {

namespace {

// Host times that a profile does not state count as zero.
Seconds time_or_zero(const Node& node, std::string_view key) {
  const auto found = node.find(key);
  return found ? found->as_seconds(0, 100) : Seconds(0);
}

}  // namespace

void read_graph_sizes(const Node& node, model::EngineProfile& e) {
  constexpr std::int64_t kMost = 1'000'000;
  e.graph_sizes.clear();
  e.graph_rule =
      node.is_scalar() ? static_cast<model::GraphRule>(node.as_one_of(model::kGraphRuleNames)) : model::GraphRule::off;
  // Only vLLM runs steps with prompts as graphs too. The sizes of a list count tokens, as vLLM's do.
  e.graphs_hold_prompts = !node.is_scalar() || e.graph_rule == model::GraphRule::vllm;
  if (node.is_scalar()) return;
  for (const Item& item : node.items()) e.graph_sizes.push_back(item.value.as_integer(1, kMost));
  if (e.graph_sizes.empty() || !std::is_sorted(e.graph_sizes.begin(), e.graph_sizes.end(), std::less_equal<>()))
    node.fail(
        "expected off, vllm, sglang, trtllm, tgi, or the increasing token counts of the captured graphs, such as [1, "
        "2, 4, 8]");
}

namespace {

void read_host(const Node& node, model::EngineProfile& e) {
  static constexpr std::array<std::string_view, 19> kKeys = {"step",
                                                             "op",
                                                             "layer",
                                                             "layer_tp",
                                                             "layer_rank",
                                                             "sequence",
                                                             "token",
                                                             "prefill",
                                                             "prompt_rank",
                                                             "rank_growth",
                                                             "serial_output",
                                                             "front_end",
                                                             "intake",
                                                             "overlap",
                                                             "overlap_exponent",
                                                             "cuda_graphs",
                                                             "stream",
                                                             "graph_sizes",
                                                             "rank_growth_by_accelerator"};
  static constexpr std::array<std::string_view, 3> kOverlaps = {"none", "p_norm", "full"};
  node.require_known_keys(kKeys);
  e.host_step = time_or_zero(node, "step");
  e.host_layer = time_or_zero(node, "layer");
  e.host_layer_tp = time_or_zero(node, "layer_tp");
  e.host_layer_rank = time_or_zero(node, "layer_rank");
  e.host_sequence = time_or_zero(node, "sequence");
  e.host_token = time_or_zero(node, "token");
  e.host_prefill = time_or_zero(node, "prefill");
  e.host_stream = time_or_zero(node, "stream");
  e.host_op = time_or_zero(node, "op");
  e.host_prompt_rank = time_or_zero(node, "prompt_rank");
  e.front_end = time_or_zero(node, "front_end");
  e.intake = time_or_zero(node, "intake");
  if (const auto found = node.find("rank_growth")) e.host_rank_growth = found->as_number(0, 10);
  if (const auto found = node.find("rank_growth_by_accelerator"))
    for (const Item& item : found->items()) e.rank_growth_by_accelerator.emplace(item.key, item.value.as_number(0, 10));
  if (const auto found = node.find("serial_output")) e.serial_output = found->as_bool();
  if (const auto found = node.find("overlap")) e.overlap = static_cast<model::HostOverlap>(found->as_one_of(kOverlaps));
  if (const auto found = node.find("overlap_exponent")) e.overlap_exponent = found->as_number(1, 64);
  if (const auto found = node.find("cuda_graphs")) e.cuda_graphs = found->as_bool();
  if (const auto found = node.find("graph_sizes")) read_graph_sizes(*found, e);
}

model::KernelScale read_scale(const Node& node) {
  static constexpr std::array<std::string_view, 4> kKeys = {"compute_scale", "memory_scale", "unpacked_from", "source"};
  node.require_known_keys(kKeys);
  (void)node.at("source").as_string();
  model::KernelScale scale;
  if (const auto found = node.find("compute_scale")) scale.compute = found->as_number(0.01, 10);
  if (const auto found = node.find("memory_scale")) scale.memory = found->as_number(0.01, 10);
  if (const auto found = node.find("unpacked_from")) scale.unpacked_from = found->as_integer(0, 1'000'000);
  return scale;
}

void read_products(const Node& node, model::EngineProfile& e) {
  for (const Item& item : node.items()) {
    const auto type = model::dtype_from_name(item.key);
    if (!type || model::bytes_per_element(*type) >= 2)
      throw InputError(item.key_where, "expected a type of weights of 8 or 4 bits, as in nvfp4");
    e.product_scales.emplace(*type, read_scale(item.value));
  }
}

void read_kernels(const Node& node, model::EngineProfile& e) {
  static constexpr std::array<std::string_view, 10> kKeys = {
      "compute_scale",      "memory_scale", "attention_stream", "all_reduce",         "own",
      "all_reduce_by_link", "measured",     "products",         "fused_quantisation", "cache_read_as_16_bits"};
  node.require_known_keys(kKeys);
  if (const auto found = node.find("compute_scale")) e.compute_scale = found->as_number(0.01, 10);
  if (const auto found = node.find("memory_scale")) e.memory_scale = found->as_number(0.01, 10);
  if (const auto found = node.find("attention_stream")) e.attention_stream = found->as_bytes_per_second(1e6);
  if (const auto found = node.find("measured")) e.measured_kernels = found->as_bool();
  if (const auto found = node.find("cache_read_as_16_bits")) e.cache_read_as_16_bits = found->as_bool();
  if (const auto found = node.find("all_reduce")) e.all_reduce_kernel = found->as_string();
  if (const auto found = node.find("all_reduce_by_link"))
    for (const Item& item : found->items()) e.all_reduce_by_link.emplace(item.key, item.value.as_string());
  if (const auto found = node.find("own")) e.own_kernels = found->as_string();
  if (const auto found = node.find("products")) read_products(*found, e);
  e.fused_quantisation = time_or_zero(node, "fused_quantisation");
}

void read_memory(const Node& node, model::EngineProfile& e) {
  static constexpr std::array<std::string_view, 5> kKeys = {"fraction", "overhead", "graph_pool", "activation_factor",
                                                            "fp8_cache"};
  node.require_known_keys(kKeys);
  if (const auto found = node.find("fraction")) e.memory_fraction = found->as_number(0.01, 1);
  if (const auto found = node.find("overhead")) e.overhead = found->as_bytes();
  if (const auto found = node.find("graph_pool")) e.graph_pool = found->as_bytes();
  if (const auto found = node.find("activation_factor")) e.activation_factor = found->as_number(0, 100);
  if (const auto found = node.find("fp8_cache")) e.fp8_cache = found->as_bool();
}

std::vector<std::string> read_names(const Node& node, std::string_view key) {
  std::vector<std::string> names;
  if (const auto found = node.find(key))
    for (const Item& item : found->items()) names.push_back(item.value.as_string());
  return names;
}

// A request that passes a front end does not pass the engine's own server. The model adds both times, so this
// difference may be negative.
Seconds added_delay(const Node& node, const model::EngineProfile& e) {
  const auto found = node.find("front_end");
  return found ? found->as_seconds(0, 100) - e.front_end : Seconds(0);
}

// study/file/read_point.cpp uses these settings of the server; they are only checked here.
void check_set_up(const Node& node) {
  if (const auto found = node.find("measured_with")) (void)found->as_string();
  if (const auto found = node.find("budget_beyond")) (void)found->as_integer(1, 1 << 30);
  (void)read_names(node, "one_slot_less");
}

// Reads the times of each front end; they must have a source.
void read_front_ends(const Node& node, model::EngineProfile& e) {
  static constexpr std::array<std::string_view, 9> kKeys = {
      "front_end", "intake", "step", "sequence", "stream", "budget_beyond", "one_slot_less", "measured_with", "source"};
  const auto names = std::span(model::kFrontEndNames).subspan(1);
  node.require_known_keys(names);
  for (const Item& item : node.items()) {
    item.value.require_known_keys(kKeys);
    (void)item.value.at("source").as_string();
    const auto kind = static_cast<model::FrontEnd>(std::find(names.begin(), names.end(), item.key) - names.begin() + 1);
    e.front_ends[kind] = {added_delay(item.value, e), time_or_zero(item.value, "intake"),
                          time_or_zero(item.value, "step"), time_or_zero(item.value, "sequence"),
                          time_or_zero(item.value, "stream")};
    check_set_up(item.value);
  }
}

std::pair<double, double> read_pair(const Node& node, double min, double max) {
  const std::vector<Item> items = node.items();
  if (items.size() != 2) node.fail("expected two numbers, the lower one first");
  const std::pair pair{items[0].value.as_number(min, max), items[1].value.as_number(min, max)};
  if (pair.first > pair.second) node.fail("expected two numbers, the lower one first");
  return pair;
}

model::Interval read_interval(const Node& node, std::string_view key, double max) {
  const auto found = node.find(key);
  if (!found) return {};
  const auto [low, high] = read_pair(*found, 1, max);
  return {low, high};
}

model::CalibratedRange read_range(const Node& node) {
  static constexpr std::array<std::string_view, 10> kKeys = {"family", "types", "models", "accelerators", "parameters",
                                                             "tp",     "batch", "input",  "output",       "context"};
  static constexpr std::array<std::string_view, 2> kFamilies = {"dense", "moe"};
  constexpr double kMaxTokens = 1e9;
  node.require_known_keys(kKeys);
  model::CalibratedRange range;
  range.family = static_cast<model::ModelFamily>(node.at("family").as_one_of(kFamilies));
  const std::vector<Item> types = node.at("types").items();
  if (types.size() != 2) node.at("types").fail("expected two types, of the weights and of the KV cache");
  range.weights = types[0].value.as_dtype();
  range.cache = types[1].value.as_dtype();
  range.models = read_names(node, "models");
  range.accelerators = read_names(node, "accelerators");
  range.parameters = read_interval(node, "parameters", 1e15);
  range.tp = read_interval(node, "tp", 4096);
  range.batch = read_interval(node, "batch", kMaxTokens);
  range.input = read_interval(node, "input", kMaxTokens);
  range.output = read_interval(node, "output", kMaxTokens);
  if (const auto found = node.find("context")) range.context = found->as_number(1, kMaxTokens);
  return range;
}

void read_ranges(const Node& node, model::EngineProfile& e) {
  static constexpr std::array<std::string_view, 2> kKeys = {"versions", "groups"};
  node.require_known_keys(kKeys);
  e.versions = read_names(node, "versions");
  for (const Item& item : node.at("groups").items()) e.ranges.push_back(read_range(item.value));
}

constexpr double kMaxFactor = 20;  // measured time over predicted time

model::TimeUncertainty read_factors(const Node& node) {
  model::TimeUncertainty u;
  std::tie(u.decode_low, u.decode_high) = read_pair(node.at("decode"), 1 / kMaxFactor, kMaxFactor);
  std::tie(u.prefill_low, u.prefill_high) = read_pair(node.at("prefill"), 1 / kMaxFactor, kMaxFactor);
  return u;
}

model::TimeUncertainty read_uncertainty(const Node& node) {
  static constexpr std::array<std::string_view, 2> kKeys = {"decode", "prefill"};
  node.require_known_keys(kKeys);
  return read_factors(node);
}

// Reads factors by the kind of group that was left out; each entry must state its source.
void read_beyond(const Node& node, model::EngineProfile& e) {
  static constexpr std::array<std::string_view, 3> kKeys = {"decode", "prefill", "source"};
  node.require_known_keys(model::kBeyondNames);
  for (std::size_t i = 0; i < model::kBeyondNames.size(); ++i) {
    const auto found = node.find(model::kBeyondNames[i]);
    if (!found) continue;
    found->require_known_keys(kKeys);
    // The key is required but not stored, so that figures without a source are refused.
    (void)found->at("source").as_string();
    e.uncertainty_beyond[static_cast<model::Beyond>(i)] = read_factors(*found);
  }
}

model::ClosedLoopDrift read_drift(const Node& node) {
  static constexpr std::array<std::string_view, 4> kKeys = {"output_cv", "output_tokens", "front_end", "source"};
  node.require_known_keys(kKeys);
  model::ClosedLoopDrift drift;
  const auto tokens = node.find("output_tokens");
  if (tokens && node.find("output_cv")) node.fail("expected output_cv or output_tokens, found both");
  if (tokens) drift.output_tokens = tokens->as_number(0, 1e6);
  if (!tokens) drift.output_cv = node.at("output_cv").as_number(0, 1);
  if (const auto found = node.find("front_end"))
    drift.front_end = static_cast<model::FrontEnd>(found->as_one_of(model::kFrontEndNames));
  return drift;
}

Engine::Larger read_larger(const Node& node) {
  static constexpr std::array<std::string_view, 3> kKeys = {"memory", "except", "scheduler"};
  node.require_known_keys(kKeys);
  Engine::Larger larger{.memory = node.at("memory").as_bytes().value, .except = {}, .scheduler = node.at("scheduler")};
  if (const auto except = node.find("except"))
    for (const Item& item : except->items()) larger.except.push_back(item.value.as_string());
  return larger;
}

}  // namespace

// Keeps the scheduler's map unchanged: study/file/read_point.cpp merges it into a point's settings and checks its keys.
Engine read_engine(const Node& root, const std::string& id) {
  static constexpr std::array<std::string_view, 17> kKeys = {"name",
                                                             "aliases",
                                                             "like",
                                                             "front_ends",
                                                             "host",
                                                             "kernels",
                                                             "memory",
                                                             "scheduler",
                                                             "scheduler_when_memory_at_least",
                                                             "calibrated",
                                                             "calibrated_on",
                                                             "calibrated_for",
                                                             "uncertainty",
                                                             "uncertainty_beyond",
                                                             "closed_loop_drift",
                                                             "note",
                                                             "source"};
  root.require_known_keys(kKeys);
  model::EngineProfile e;
  e.id = id;
  if (const auto host = root.find("host")) read_host(*host, e);
  if (const auto like = root.find("like")) e.like = like->as_string();
  if (const auto found = root.find("front_ends")) read_front_ends(*found, e);
  if (const auto kernels = root.find("kernels")) read_kernels(*kernels, e);
  if (const auto memory = root.find("memory")) read_memory(*memory, e);
  e.calibrated_on = root.at("calibrated_on").as_string();
  e.calibrated = root.at("calibrated").as_bool();
  if (const auto found = root.find("calibrated_for")) read_ranges(*found, e);
  if (const auto found = root.find("uncertainty")) e.uncertainty = read_uncertainty(*found);
  if (const auto found = root.find("uncertainty_beyond")) read_beyond(*found, e);
  if (const auto found = root.find("closed_loop_drift")) e.closed_loop_drift = read_drift(*found);
  Engine engine;
  if (const auto scheduler = root.find("scheduler")) {
    engine.scheduler = *scheduler;
    if (const auto policy = scheduler->find("policy")) e.scheduler_policy = policy->as_string();
  }
  if (const auto larger = root.find("scheduler_when_memory_at_least")) engine.larger = read_larger(*larger);
  engine.profile = std::make_shared<const model::EngineProfile>(std::move(e));
  return engine;
}

}  // namespace plimsoll::configs

// SPDX-License-Identifier: Apache-2.0
// Engine profiles from their files (configs/README.md).
#include <array>
#include <tuple>
#include <utility>

#include "configs/catalogue.h"

namespace plimsoll::configs {

namespace {

Seconds time_or_zero(const Node& node, std::string_view key) {
  const auto found = node.find(key);
  return found ? found->as_seconds(0, 100) : Seconds(0);
}

void read_host(const Node& node, model::EngineProfile& e) {
  static constexpr std::array<std::string_view, 16> kKeys = {
      "step", "op", "layer", "layer_tp", "layer_rank", "sequence", "token", "prefill", "prompt_rank", "rank_growth",
      "serial_output", "front_end", "intake", "overlap", "overlap_exponent", "cuda_graphs"};
  static constexpr std::array<std::string_view, 3> kOverlaps = {"none", "p_norm", "full"};
  node.require_known_keys(kKeys);
  e.host_step = time_or_zero(node, "step");
  e.host_layer = time_or_zero(node, "layer");
  e.host_layer_tp = time_or_zero(node, "layer_tp");
  e.host_layer_rank = time_or_zero(node, "layer_rank");
  e.host_sequence = time_or_zero(node, "sequence");
  e.host_token = time_or_zero(node, "token");
  e.host_prefill = time_or_zero(node, "prefill");
  e.host_op = time_or_zero(node, "op");
  e.host_prompt_rank = time_or_zero(node, "prompt_rank");
  e.front_end = time_or_zero(node, "front_end");
  e.intake = time_or_zero(node, "intake");
  if (const auto found = node.find("rank_growth")) e.host_rank_growth = found->as_number(0, 10);
  if (const auto found = node.find("serial_output")) e.serial_output = found->as_bool();
  if (const auto found = node.find("overlap")) e.overlap = static_cast<model::HostOverlap>(found->as_one_of(kOverlaps));
  if (const auto found = node.find("overlap_exponent")) e.overlap_exponent = found->as_number(1, 64);
  if (const auto found = node.find("cuda_graphs")) e.cuda_graphs = found->as_bool();
}

void read_memory(const Node& node, model::EngineProfile& e) {
  static constexpr std::array<std::string_view, 5> kKeys = {"fraction", "overhead", "graph_pool", "activation_factor", "fp8_cache"};
  node.require_known_keys(kKeys);
  if (const auto found = node.find("fraction")) e.memory_fraction = found->as_number(0.01, 1);
  if (const auto found = node.find("overhead")) e.overhead = found->as_bytes();
  if (const auto found = node.find("graph_pool")) e.graph_pool = found->as_bytes();
  if (const auto found = node.find("activation_factor")) e.activation_factor = found->as_number(0, 100);
  if (const auto found = node.find("fp8_cache")) e.fp8_cache = found->as_bool();
}

std::pair<double, double> read_pair(const Node& node, double min, double max) {
  const std::vector<Item> items = node.items();
  if (items.size() != 2) node.fail("expected two numbers, the lower one first");
  const std::pair pair{items[0].value.as_number(min, max), items[1].value.as_number(min, max)};
  if (pair.first > pair.second) node.fail("expected two numbers, the lower one first");
  return pair;
}

model::CalibratedRange read_range(const Node& node) {
  static constexpr std::array<std::string_view, 5> kKeys = {"accelerators", "tp", "batch", "context", "parameters"};
  node.require_known_keys(kKeys);
  model::CalibratedRange range;
  if (const auto found = node.find("accelerators"))
    for (const Item& item : found->items()) range.accelerators.push_back(item.value.as_string());
  if (const auto found = node.find("tp")) range.tp = static_cast<std::int32_t>(found->as_integer(1, 4096));
  if (const auto found = node.find("batch")) range.batch = found->as_integer(1);
  if (const auto found = node.find("context")) range.context = found->as_integer(1);
  if (const auto found = node.find("parameters")) std::tie(range.parameters_low, range.parameters_high) = read_pair(*found, 1, 1e15);
  return range;
}

model::TimeUncertainty read_uncertainty(const Node& node) {
  static constexpr std::array<std::string_view, 2> kKeys = {"decode", "prefill"};
  node.require_known_keys(kKeys);
  model::TimeUncertainty u;
  std::tie(u.decode_low, u.decode_high) = read_pair(node.at("decode"), 0.05, 20);
  std::tie(u.prefill_low, u.prefill_high) = read_pair(node.at("prefill"), 0.05, 20);
  return u;
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

Engine read_engine(const Node& root, const std::string& id) {
  static constexpr std::array<std::string_view, 13> kKeys = {"name", "aliases", "host", "kernels", "memory", "scheduler",
                                                             "scheduler_when_memory_at_least", "calibrated", "calibrated_on",
                                                             "calibrated_for", "uncertainty", "note", "source"};
  static constexpr std::array<std::string_view, 5> kKernels = {"compute_scale", "memory_scale", "attention_stream",
                                                               "all_reduce", "measured"};
  root.require_known_keys(kKeys);
  model::EngineProfile e;
  e.id = id;
  if (const auto host = root.find("host")) read_host(*host, e);
  if (const auto kernels = root.find("kernels")) {
    kernels->require_known_keys(kKernels);
    if (const auto found = kernels->find("compute_scale")) e.compute_scale = found->as_number(0.01, 10);
    if (const auto found = kernels->find("memory_scale")) e.memory_scale = found->as_number(0.01, 10);
    if (const auto found = kernels->find("attention_stream")) e.attention_stream = found->as_bytes_per_second(1e6);
    if (const auto found = kernels->find("measured")) e.measured_kernels = found->as_bool();
    if (const auto found = kernels->find("all_reduce")) e.all_reduce_kernel = found->as_string();
  }
  if (const auto memory = root.find("memory")) read_memory(*memory, e);
  e.calibrated_on = root.at("calibrated_on").as_string();
  e.calibrated = root.at("calibrated").as_bool();
  if (const auto found = root.find("calibrated_for")) e.range = read_range(*found);
  if (const auto found = root.find("uncertainty")) e.uncertainty = read_uncertainty(*found);
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

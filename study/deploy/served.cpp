// SPDX-License-Identifier: Apache-2.0
#include "study/deploy/served.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sched/policy_table.h"
#include "study/deploy/engine_options.h"

namespace plimsoll::study::deploy {
namespace {

using configs::Document;
using configs::Node;
using sched::Server;

struct EngineProduct {
  Server server;
  std::string_view prefix, image;  // prefix: of engine profiles; image: up to the version
};
constexpr std::array<EngineProduct, 2> kEngines = {
    {{Server::vllm, "vllm-", "vllm/vllm-openai:v"}, {Server::sglang, "sglang-", "lmsysorg/sglang:v"}}};

const EngineProduct* engine_product(Server server) {
  const auto* const found =
      std::find_if(kEngines.begin(), kEngines.end(), [&](const EngineProduct& p) { return p.server == server; });
  return found == kEngines.end() ? nullptr : found;
}

bool begins_with_digit(std::string_view text) { return !text.empty() && text.front() >= '0' && text.front() <= '9'; }

// Copies the values at these paths of the study, if it states them.
void carry(const Node& root, Document& into, std::initializer_list<std::string_view> keys, const std::string& prefix) {
  Node node = root;
  std::string path = prefix;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const auto inner = node.is_map() ? node.find(path.substr(begin, end - begin)) : std::nullopt;
    if (!inner || !inner->is_map()) return;
    node = *inner;
    begin = end + 1;
  }
  for (const std::string_view key : keys)
    if (const auto value = node.find(key))
      into.set(prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key), *value);
}

std::string carried_study(const PointSpec& spec, const Node& root, const std::vector<Pool>& pools) {
  Document whole = Document::from_text("{study: {}}", "manifest"), study = Document::from_text("{}", "manifest");
  carry(
      root, study,
      {"model", "dtype", "kv_dtype", "hardware", "price_date", "prices", "engine", "engine_front_end", "engine_graphs"},
      "");
  carry(root, study, {"instances", "failures"}, "deployment");
  if (spec.prefill) {
    carry(root, study, {"transfer"}, "deployment");
    for (const char* const pool : {"prefill", "decode"})
      carry(root, study, {"hardware", "engine", "instances", "failures"}, fmt::format("deployment.pools.{}", pool));
  }
  whole.set("study", study.root());
  for (const Pool& pool : pools)
    for (const auto& [key, value] : unstated_options(pool))
      whole.set(fmt::format("defaults.{}.{}", pool.name, key), fmt::format("{}", value), Where{"manifest", 0, 0});
  return whole.root().to_text();
}

// Returns why no product at all can run the deployment; empty: some may.
std::string common_problem(const PointSpec& spec, Server server) {
  const Deployment& d = spec.deployment;
  if (spec.engine->constant) return "its servers are described by constant rates instead of an engine";
  if (d.autoscaling) return "deployment.autoscaling follows SageMaker's rules, which none of these products implements";
  if (spec.model_is_file) return "the model is a local file; state its name on Hugging Face's hub";
  if (spec.weights.size() + spec.prompts.size() > 0)
    return "the keys weights and prompts apply only to the executor: leave them out";
  if (spec.engine->scheduler_policy.empty())
    return fmt::format("engine {} is not a product; state one, such as vllm-0.12", spec.engine->id);
  if (spec.policy.policy != sched::policy_from_name(spec.engine->scheduler_policy))
    return fmt::format("engine {} does not run policy {}", spec.engine->id, sched::name(spec.policy.policy));
  if (spec.shape && !spec.shape->checkpoint && served_dtype_needs_checkpoint(spec.weight_dtype))
    return fmt::format("weights in {} need a checkpoint of that type: state it as the model",
                       model::name(spec.weight_dtype));
  if (engine_product(server) == nullptr)
    return fmt::format("manifests are written for vLLM from 0.10 on and SGLang; the engine is {}", spec.engine->id);
  return option_problem(spec, server);
}

}  // namespace

std::int32_t minor_of(std::string_view version) {
  const std::size_t dot = version.find('.');
  std::int32_t minor = 0;
  if (dot == std::string_view::npos) return 0;
  const auto end = std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  return end.ec == std::errc() ? minor : 0;
}

std::optional<std::string> engine_version(const PointSpec& spec, Server server) {
  const EngineProduct* const product = engine_product(server);
  if (product == nullptr) return {};
  std::string name;  // "0.12"
  for (const std::string& id : {configs::canonical_name(spec.engine_name), spec.engine->id}) {
    if (!id.starts_with(product->prefix) || !begins_with_digit(id.substr(product->prefix.size()))) continue;
    name = id.substr(product->prefix.size());
    break;
  }
  const std::vector<std::string>& fitted = spec.engine->versions;
  if (name.empty()) return fitted.empty() ? std::nullopt : std::optional(fitted.back());
  for (auto version = fitted.rbegin(); version != fitted.rend(); ++version)
    if (*version == name || version->starts_with(name + '.')) return *version;
  return std::count(name.begin(), name.end(), '.') == 1 ? name + ".0" : name;
}

std::string image_of(Server server, const std::string& version) {
  const EngineProduct* const product = engine_product(server);
  return product == nullptr ? std::string() : std::string(product->image) + version;
}

std::optional<std::string> node_type(const PointSpec& spec) {
  std::string label = spec.hardware.label;
  if (label.starts_with("ml.")) label = label.substr(3);
  const bool is_own = label.find(' ') != std::string::npos || label.empty();
  // Azure's labels have capitals and "_".
  const bool is_respelt = label.starts_with("standard-") || label.starts_with("nc");
  if (is_own || is_respelt) return {};
  return label;
}

Served served_of(const PointSpec& spec, const Node& root, const std::string& title) {
  Served served{.spec = &spec, .title = title, .server = {}, .pools = {}, .study = {}, .refused = {}};
  const auto servers = sched::policy_info(spec.policy.policy).servers;
  if (servers.empty()) {
    served.refused = fmt::format("no serving product runs policy {}", sched::name(spec.policy.policy));
    return served;
  }
  served.server = servers.front();
  if (spec.prefill) served.pools.push_back({"prefill", sched::Role::prefill, spec.prefill.get(), {}, {}});
  served.pools.push_back(
      {spec.prefill ? "decode" : "server", spec.prefill ? sched::Role::decode : sched::Role::whole, &spec, {}, {}});
  for (Pool& pool : served.pools) {
    std::string problem = common_problem(*pool.spec, served.server);
    const auto version = problem.empty() ? engine_version(*pool.spec, served.server) : std::nullopt;
    if (problem.empty() && !version)
      problem =
          fmt::format("engine {} states no version of its product, so no image can be named", pool.spec->engine->id);
    if (problem.empty()) problem = version_problem(*pool.spec, served.server, *version);
    if (problem.empty() && spec.prefill) problem = transfer_problem(spec, served.server, *version);
    if (!problem.empty()) {
      served.refused = (spec.prefill ? pool.name + " pool: " : "") + problem;
      return served;
    }
    pool.engine_version = *version;
    pool.image = image_of(served.server, *version);
  }
  served.study = carried_study(spec, root, served.pools);
  return served;
}

}  // namespace plimsoll::study::deploy

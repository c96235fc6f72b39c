// SPDX-License-Identifier: Apache-2.0
// The vLLM production stack: values of its Helm chart, one entry of modelSpec for each pool.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/error.h"
#include "sched/router.h"
#include "study/deploy/products.h"
#include "study/output/deployment_flags.h"

namespace plimsoll::study::deploy {
namespace {

using configs::Node;
using sched::Role;
using sched::RouterKind;
using sched::Server;

constexpr std::string_view kTwoPools = "disaggregated_prefill_orchestrated", kSessionKey = "x-session-id",
                           kImage = "vllm/vllm-openai";

/// A rule of the stack's router.
struct Logic {
  RouterKind router;
  std::string_view name;
};
constexpr std::array<Logic, 3> kLogics = {{{RouterKind::round_robin, "roundrobin"},
                                           {RouterKind::session, "session"},
                                           {RouterKind::prefix_trie, "prefixaware"}}};

/// A field of vllmConfig that sets an option of the server.
struct Field {
  std::string_view name, option;
  enum class Type : unsigned char { whole, number, text, flag } type;
};
constexpr std::array<Field, 7> kFields = {{{"enablePrefixCaching", "--enable-prefix-caching", Field::Type::flag},
                                           {"enableChunkedPrefill", "--enable-chunked-prefill", Field::Type::flag},
                                           {"maxModelLen", "--max-model-len", Field::Type::whole},
                                           {"dtype", "--dtype", Field::Type::text},
                                           {"tensorParallelSize", "--tensor-parallel-size", Field::Type::whole},
                                           {"maxNumSeqs", "--max-num-seqs", Field::Type::whole},
                                           {"gpuMemoryUtilization", "--gpu-memory-utilization", Field::Type::number}}};

std::string stack_problem(const Served& served) {
  const PointSpec& spec = *served.spec;
  if (served.server != Server::vllm) return "its chart starts vLLM";
  if (spec.front_end != model::FrontEnd::none) return "the prediction is for servers behind Dynamo";
  if (served.has_pools()) {
    for (const Pool& pool : served.pools)
      if (router_of(*pool.spec).value_or(RouterKind::round_robin) != RouterKind::round_robin)
        return "with two pools its router supports only round_robin";
    if (spec.local_prefill.policy != load::LocalPrefill::Policy::never) return "its router has no local prefills";
    return {};
  }
  const std::optional<RouterKind> router = router_of(spec);
  if (!router) return {};
  if (router == RouterKind::kv_aware)
    return "kvaware needs LMCache in every server, which the prediction does not include";
  if (spec.deployment.router_options.session_cap) return "its session router has no option for cap";
  for (const Logic& logic : kLogics)
    if (logic.router == router) return {};
  return router_refusal("its router", spec, "round_robin, session, prefix_trie");
}

Tree field_value(const Field& field, const std::string& text) {
  switch (field.type) {
    case Field::Type::whole: return Tree(std::stoll(text));
    case Field::Type::number: return Tree(std::stod(text));
    case Field::Type::text:
    case Field::Type::flag: break;
  }
  return Tree(text);
}

// Options that have a field go there; the others are extra arguments.
Tree vllm_config(const Served& served, const Pool& pool) {
  Tree config = Tree::object(), extra = Tree::array();
  for (const ServerOption& option : server_options(served, pool)) {
    const bool off = option.name.starts_with("--no-");
    const std::string name = off ? "--" + option.name.substr(5) : option.name;
    const auto* const field =
        std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return f.option == name; });
    if (field == kFields.end()) {
      extra.push_back(option.name);
      if (option.value) extra.push_back(*option.value);
    } else if (field->type == Field::Type::flag) {
      config[std::string(field->name)] = !off;
    } else {
      config[std::string(field->name)] = field_value(*field, *option.value);
    }
  }
  config["extraArgs"] = extra;
  return config;
}

Tree model_spec(const Served& served, const Pool& pool, bool first) {
  const PointSpec& spec = *pool.spec;
  const std::int32_t gpus = gpus_of(spec);
  Tree entry = {{"name", pool.name},
                {"repository", kImage},
                {"tag", "v" + pool.engine_version},
                {"modelURL", served_model(spec)},
                {"replicaCount", spec.deployment.replicas},
                // The chart requires both; no prediction depends on them.
                {"requestCPU", 4 * gpus},
                {"requestMemory", fmt::format("{}Gi", 32 * gpus)},
                {"requestGPU", gpus},
                {"shmSize", "16Gi"}};
  if (served.has_pools()) {
    const Tree resources = {{"cpu", fmt::format("{}", 4 * gpus)},
                            {"memory", fmt::format("{}Gi", 32 * gpus)},
                            {"nvidia.com/gpu", fmt::format("{}", gpus)},
                            {"rdma/ib", "1"}};
    entry["resources"] = {{"requests", resources}, {"limits", resources}};
    entry["env"] = kubernetes_environment(served);
  }
  if (first) entry["annotations"] = {{kStudyKey, served.study}};
  if (const auto type = node_type(spec))
    entry["nodeSelectorTerms"] = Tree::array(
        {{{"matchExpressions", Tree::array({{{"key", kNodeType}, {"operator", "In"}, {"values", {*type}}}})}}});
  entry["vllmConfig"] = vllm_config(served, pool);
  return entry;
}

Tree router_spec(const Served& served) {
  Tree router = {
      {"enableRouter", true}, {"repository", "lmcache/lmstack-router"}, {"tag", "v0.1.12"}, {"replicaCount", 1}};
  if (served.has_pools()) {
    router["routingLogic"] = kTwoPools;
    router["extraArgs"] = {"--prefill-model-labels", "prefill", "--decode-model-labels", "decode"};
    return router;
  }
  const RouterKind kind = router_of(*served.spec).value_or(RouterKind::round_robin);
  for (const Logic& logic : kLogics)
    if (logic.router == kind) router["routingLogic"] = logic.name;
  if (kind == RouterKind::session) router["sessionKey"] = kSessionKey;
  return router;
}

void add_argument(const Token& token, std::string text, std::vector<Token>& arguments) {
  arguments.push_back({std::move(text), token.where});
}

FoundPool read_model(const Node& entry, bool one_of_two) {
  FoundPool pool{.name = "server", .where = entry.where()};
  constexpr std::array<std::string_view, 2> kNames = {"prefill", "decode"};
  if (one_of_two) pool.name = kNames[entry.at("name").as_one_of(kNames)];
  const Token repository = token_of(need_inside(entry, "repository")), tag = token_of(need_inside(entry, "tag"));
  pool.image = Token{repository.text + ':' + tag.text, tag.where};
  pool.model = token_of(need_inside(entry, "modelURL"));
  pool.replicas = token_of(need_inside(entry, "replicaCount"));
  pool.gpus = token_of(need_inside(entry, "requestGPU"));
  if (const auto type = inside(entry, "nodeSelectorTerms/0/matchExpressions/0/values/0"))
    pool.node_type = token_of(*type);
  std::vector<Token> arguments;
  const Node config = need_inside(entry, "vllmConfig");
  for (const configs::Item& item : config.items()) {
    if (item.key == "extraArgs") continue;
    const auto* const field =
        std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return f.name == item.key; });
    if (field == kFields.end())
      throw InputError(item.key_where, fmt::format("found '{}', which has no equivalent in a study", item.key));
    const Token value = token_of(item.value);
    if (field->type == Field::Type::flag) {
      add_argument(value,
                   item.value.as_bool() ? std::string(field->option) : "--no-" + std::string(field->option.substr(2)),
                   arguments);
    } else {
      add_argument(value, std::string(field->option), arguments);
      arguments.push_back(value);
    }
  }
  if (const auto extra = config.find("extraArgs"))
    for (Token& token : tokens_of(*extra)) arguments.push_back(std::move(token));
  read_arguments(Server::vllm, arguments, pool);
  if (const auto list = entry.find("env")) read_environment(*list, pool);
  return pool;
}

}  // namespace

Written write_production_stack(const Served& served) {
  if (std::string reason = stack_problem(served); !reason.empty()) return {{}, std::move(reason)};
  Tree models = Tree::array();
  for (const Pool& pool : served.pools) models.push_back(model_spec(served, pool, models.empty()));
  const Tree file = {{"servingEngineSpec", {{"enableEngine", true}, {"runtimeClassName", ""}, {"modelSpec", models}}},
                     {"routerSpec", router_spec(served)}};
  return {heading(served, product_named("production stack")) + yaml_text(file), {}, {file}};
}

Found read_production_stack(std::span<const Node> documents) {
  const Node& root = documents.front();
  Found found{.product = "production stack", .where = root.where(), .study = {}, .pools = {}, .local_prefill = {}};
  const Node list = need_inside(root, "servingEngineSpec/modelSpec");
  const std::vector<configs::Item> models = list.items();
  if (models.empty() || models.size() > 2) list.fail("expected one model, or two named prefill and decode");
  for (const configs::Item& item : models) {
    found.pools.push_back(read_model(item.value, models.size() == 2));
    const auto notes = item.value.find("annotations");
    if (notes && notes->is_map() && notes->has(kStudyKey)) found.study = token_of(notes->at(kStudyKey));
  }
  const Node logic = need_inside(root, "routerSpec/routingLogic");
  if (models.size() == 2) {
    if (logic.as_string() != kTwoPools) logic.fail(fmt::format("two pools need routingLogic {}", kTwoPools));
    for (FoundPool& pool : found.pools) pool.router = Token{"round_robin", logic.where()};
    found.local_prefill = Token{"never", logic.where()};
    return found;
  }
  constexpr std::array<std::string_view, 3> kNames = {kLogics[0].name, kLogics[1].name, kLogics[2].name};
  found.pools.front().router = Token{std::string(sched::name(kLogics[logic.as_one_of(kNames)].router)), logic.where()};
  return found;
}

}  // namespace plimsoll::study::deploy

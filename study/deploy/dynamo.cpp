// SPDX-License-Identifier: Apache-2.0
// NVIDIA Dynamo: a DynamoGraphDeployment with a front end, which routes requests, and one or two kinds of workers.
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

constexpr std::string_view kImages = "nvcr.io/nvidia/ai-dynamo/";
constexpr std::string_view kMode = "--router-mode", kTemperature = "--router-temperature",
                           kBlock = "--kv-cache-block-size", kEnforce = "--enforce-disagg";

/// A rule of Dynamo's front end.
struct Mode {
  RouterKind router;
  std::string_view name;
};
constexpr std::array<Mode, 3> kModes = {
    {{RouterKind::dynamo, "kv"}, {RouterKind::round_robin, "round-robin"}, {RouterKind::random, "random"}}};

/// Returns the major and minor number of a release, for comparisons.
std::pair<int, int> numbers_of(const std::string& release) { return {std::atoi(release.c_str()), minor_of(release)}; }
bool is_at_least(const std::string& release, int major, int minor) {
  return numbers_of(release) >= std::pair(major, minor);
}
// Returns the option for the weight of the overlap; it was renamed.
std::string_view overlap_option(const std::string& release) {
  return is_at_least(release, 1, 0) ? "--router-kv-overlap-score-weight" : "--kv-overlap-score-weight";
}
// Some releases prefill on decode workers until prefill workers are ready, unless an option forbids it.
bool has_enforce(const std::string& release) {
  return numbers_of(release) != std::pair(1, 0) && is_at_least(release, 0, 8);
}

// An engine profile is valid for every version that it was fitted to. Returns the release with the newest of these.
std::optional<std::string> release_of(const Served& served) {
  const Pool& pool = served.decode();
  if (auto release = dynamo_release(served.server, pool.engine_version)) return release;
  const std::vector<std::string>& fitted = pool.spec->engine->versions;
  for (auto version = fitted.rbegin(); version != fitted.rend(); ++version)
    if (minor_of(*version) == minor_of(pool.engine_version))
      if (auto release = dynamo_release(served.server, *version)) return release;
  return {};
}

std::string runtime_image(Server server, const std::string& release) {
  return fmt::format("{}{}-runtime:{}", kImages, server == Server::sglang ? "sglang" : "vllm", release);
}

std::string dynamo_problem(const Served& served, const std::optional<std::string>& release) {
  const PointSpec& spec = *served.spec;
  const bool same = std::all_of(served.pools.begin(), served.pools.end(), [&](const Pool& pool) {
    return pool.engine_version == served.decode().engine_version;
  });
  if (!same) return "a release contains one version of the engine, but the pools use two";
  if (!release)
    return fmt::format("no release is known that contains {}", image_of(served.server, served.decode().engine_version));
  const auto known = [](const PointSpec& pool) {
    const std::optional<RouterKind> kind = router_of(pool);
    return !kind || std::any_of(kModes.begin(), kModes.end(), [&](const Mode& mode) { return mode.router == kind; });
  };
  for (const Pool& pool : served.pools)
    if (!known(*pool.spec)) return router_refusal("Dynamo " + *release, *pool.spec, "dynamo, round_robin, random");
  if (!served.has_pools()) return {};
  const Deployment &own = spec.deployment, &other = spec.prefill->deployment;
  const bool both = router_of(spec) && router_of(*spec.prefill);
  if (both && (own.router != other.router || own.router_options.overlap != other.router_options.overlap ||
               own.router_options.temperature != other.router_options.temperature))
    return "its front end routes both pools by the same rule, but the study's routers differ";
  if (spec.local_prefill.policy != load::LocalPrefill::Policy::never)
    return fmt::format("the front end of Dynamo {} has no option for local prefills", *release);
  return {};
}

Tree front_end(const Served& served, const std::string& release) {
  // With a single decode server, only the prefill servers need a routing rule.
  const bool by_prefill = !router_of(*served.spec) && served.has_pools();
  const Deployment& d = by_prefill ? served.spec->prefill->deployment : served.spec->deployment;
  const RouterKind kind =
      router_of(by_prefill ? *served.spec->prefill : *served.spec).value_or(RouterKind::round_robin);
  std::string_view mode;
  for (const Mode& row : kModes)
    if (row.router == kind) mode = row.name;
  Tree arguments = {kMode, mode};
  const auto add = [&](std::string_view name, const std::string& value) {
    arguments.push_back(name);
    arguments.push_back(value);
  };
  if (kind == RouterKind::dynamo) {
    add(overlap_option(release), fmt::format("{}", d.router_options.overlap));
    add(kTemperature, fmt::format("{}", d.router_options.temperature));
    add(kBlock, fmt::format("{}", sched::block_tokens(served.spec->policy)));
  }
  if (served.has_pools() && has_enforce(release)) arguments.push_back(kEnforce);
  return {{"componentType", "frontend"},
          {"replicas", 1},
          {"envs", Tree::array({{{"name", "DYN_ROUTER_MODE"}, {"value", mode}}})},
          {"extraPodSpec",
           {{"mainContainer",
             {{"image", runtime_image(served.server, release)},
              {"command", {"python3", "-m", "dynamo.frontend"}},
              {"args", arguments}}}}}};
}

// Before Dynamo 1.0, switches gave vLLM's workers their role. SGLang's own options state it.
void add_role(const Served& served, const Pool& pool, const std::string& release, Tree& arguments) {
  if (served.server == Server::sglang || pool.role == Role::whole) return;
  if (is_at_least(release, 1, 0)) {
    arguments.push_back("--disaggregation-mode");
    arguments.push_back(pool.name);
  } else {
    arguments.push_back(fmt::format("--is-{}-worker", pool.name));
  }
}

Tree worker(const Served& served, const Pool& pool, const std::string& release) {
  const PointSpec& spec = *pool.spec;
  const std::string model = served_model(spec);
  Tree arguments = served.server == Server::sglang ? Tree({"--model-path", model, "--served-model-name", model})
                                                   : Tree({"--model", model, "--served-model-name", model});
  add_role(served, pool, release, arguments);
  for (std::string& text : arguments_of(server_options(served, pool))) arguments.push_back(std::move(text));
  Tree limits = {{"gpu", fmt::format("{}", gpus_of(spec))}};
  if (served.has_pools()) limits["custom"] = {{"rdma/ib", "1"}};
  Tree pod = Tree::object();
  if (const auto type = node_type(spec)) pod["nodeSelector"] = {{kNodeType, *type}};
  pod["mainContainer"] = {
      {"image", runtime_image(served.server, release)},
      {"command", {"python3", "-m", served.server == Server::sglang ? "dynamo.sglang" : "dynamo.vllm"}},
      {"args", arguments}};
  Tree service = {{"envFromSecret", "hf-token-secret"}, {"componentType", "worker"}};
  if (pool.role != Role::whole) service["subComponentType"] = pool.name;
  service["replicas"] = spec.deployment.replicas;
  service["resources"] = {{"requests", limits}, {"limits", limits}};
  service["sharedMemory"] = {{"size", "16Gi"}};
  const Tree environment = kubernetes_environment(served);
  if (!environment.empty()) service["envs"] = environment;
  service["extraPodSpec"] = pod;
  return service;
}

std::string note(const Served& served, const std::string& release) {
  std::string text =
      fmt::format("Dynamo {} contains {} {}.\n", release, served.server == Server::sglang ? "SGLang" : "vLLM",
                  engine_of_dynamo(served.server, release).value_or(""));
  if (served.spec->front_end == model::FrontEnd::none)
    text +=
        "The prediction does not include the delay of Dynamo's front end; state engine_front_end: dynamo to add it.\n";
  return yaml_comment(text);
}

std::string service_name(const Pool& pool) {
  if (pool.role == Role::whole) return "Worker";
  return pool.role == Role::prefill ? "PrefillWorker" : "DecodeWorker";
}

void read_router(const Node& service, Found& found) {
  const std::vector<GivenOption> options =
      options_of(tokens_of(need_inside(service, "extraPodSpec/mainContainer/args")));
  std::string router, more;
  Where where = service.where();
  for (const GivenOption& option : options) {
    const std::string& name = option.name.text;
    if (name == kEnforce || name == kBlock) continue;
    if (!option.value)
      throw InputError(option.name.where, fmt::format("option '{}' has no equivalent in a study", name));
    if (name == kMode) {
      where = option.value->where;
      for (const Mode& mode : kModes)
        if (mode.name == option.value->text) router = sched::name(mode.router);
    } else if (name == kTemperature) {
      more += ", temperature: " + option.value->text;
    } else if (name.ends_with("kv-overlap-score-weight")) {
      more += ", overlap: " + option.value->text;
    } else {
      throw InputError(option.name.where, fmt::format("option '{}' has no equivalent in a study", name));
    }
  }
  if (router.empty()) throw InputError(where, "found no router mode of kv, round-robin or random");
  for (FoundPool& pool : found.pools)
    pool.router = Token{more.empty() ? router : fmt::format("{{policy: {}{}}}", router, more), where};
}

// Returns the image of the engine that a runtime image contains.
Token engine_image(const Token& image) {
  const Server server = server_of_image(image);
  const std::size_t colon = image.text.rfind(':');
  const std::string release = colon == std::string::npos ? "" : image.text.substr(colon + 1);
  const auto version = engine_of_dynamo(server, release);
  if (!version)
    throw InputError(image.where,
                     fmt::format("found image '{}', of a release of Dynamo that is not known", image.text));
  return {image_of(server, *version), image.where};
}

FoundPool read_worker(const configs::Item& item) {
  const Node& service = item.value;
  FoundPool pool{.name = "server", .where = item.key_where};
  if (const auto part = service.find("subComponentType")) {
    constexpr std::array<std::string_view, 2> kParts = {"prefill", "decode"};
    pool.name = kParts[part->as_one_of(kParts)];
  }
  const Node container = need_inside(service, "extraPodSpec/mainContainer");
  pool.image = engine_image(token_of(need_inside(container, "image")));
  pool.replicas = token_of(need_inside(service, "replicas"));
  pool.gpus = token_of(need_inside(service, "resources/limits/gpu"));
  if (const auto selector = inside(service, "extraPodSpec/nodeSelector"))
    if (selector->is_map() && selector->has(kNodeType)) pool.node_type = token_of(selector->at(kNodeType));
  std::vector<Token> arguments;
  const Server server = server_of_image(*pool.image);
  for (Token& token : tokens_of(need_inside(container, "args"))) {
    const bool is_part = token.text == "--is-prefill-worker" || token.text == "--is-decode-worker";
    if (!is_part) arguments.push_back(std::move(token));
  }
  read_arguments(server, arguments, pool);
  // Drops the option that repeats the field subComponentType.
  const auto mode = std::find_if(pool.arguments.begin(), pool.arguments.end(),
                                 [](const Token& token) { return token.text == "--disaggregation-mode"; });
  if (server == Server::vllm && mode != pool.arguments.end()) pool.arguments.erase(mode, mode + 2);
  const auto served = std::find_if(pool.arguments.begin(), pool.arguments.end(),
                                   [](const Token& token) { return token.text == "--served-model-name"; });
  if (served != pool.arguments.end()) pool.arguments.erase(served, served + 2);
  if (const auto list = service.find("envs")) read_environment(*list, pool);
  return pool;
}

}  // namespace

Written write_dynamo(const Served& served) {
  const std::optional<std::string> release = release_of(served);
  if (std::string reason = dynamo_problem(served, release); !reason.empty()) return {{}, std::move(reason)};
  Tree services = {{"Frontend", front_end(served, *release)}};
  for (const Pool& pool : served.pools) services[service_name(pool)] = worker(served, pool, *release);
  Tree spec = Tree::object();
  spec["backendFramework"] = served.server == Server::sglang ? "sglang" : "vllm";
  spec["services"] = services;
  const Tree file = {{"apiVersion", "nvidia.com/v1alpha1"},
                     {"kind", "DynamoGraphDeployment"},
                     {"metadata", {{"name", "plimsoll"}, {"annotations", {{kStudyKey, served.study}}}}},
                     {"spec", spec}};
  return {heading(served, product_named("Dynamo")) + note(served, *release) + yaml_text(file), {}, {file}};
}

Found read_dynamo(std::span<const Node> documents) {
  const Node& root = documents.front();
  Found found{.product = "Dynamo", .where = root.where(), .study = {}, .pools = {}, .local_prefill = {}};
  const auto notes = inside(root, "metadata/annotations");
  if (notes && notes->is_map() && notes->has(kStudyKey)) found.study = token_of(notes->at(kStudyKey));
  std::optional<Node> front;
  for (const configs::Item& item : need_inside(root, "spec/services").items()) {
    constexpr std::array<std::string_view, 2> kTypes = {"frontend", "worker"};
    if (item.value.at("componentType").as_one_of(kTypes) == 0)
      front = item.value;
    else
      found.pools.push_back(read_worker(item));
  }
  if (!front) root.fail("found no service with componentType frontend");
  if (found.pools.empty()) root.fail("found no service with componentType worker");
  read_router(*front, found);
  if (found.pools.size() > 1) found.local_prefill = Token{"never", root.where()};
  return found;
}

}  // namespace plimsoll::study::deploy

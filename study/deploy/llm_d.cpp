// SPDX-License-Identifier: Apache-2.0
// llm-d: the servers as Deployments, an InferencePool, and the endpoint picker with its configuration and permissions.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "configs/yaml_document.h"
#include "model/error.h"
#include "study/deploy/products.h"

namespace plimsoll::study::deploy {
namespace {

using configs::Node;
using sched::Role;

constexpr std::string_view kName = "plimsoll", kPicker = "plimsoll-epp", kConfigFile = "epp-config.yaml";
constexpr std::string_view kPickerImage = "ghcr.io/llm-d/llm-d-inference-scheduler:v0.8.0",
                           kSidecarImage = "ghcr.io/llm-d/llm-d-routing-sidecar:v0.8.0";
constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr int kBehindSidecar = 8200, kSideChannel = 5600;

Tree meta(std::string_view name) { return {{"name", name}}; }

Tree probe(int port, int failures) {
  return {{"httpGet", {{"path", "/health"}, {"port", port}}},
          {"periodSeconds", 10},
          {"timeoutSeconds", 5},
          {"failureThreshold", failures}};
}

Tree server_container(const Served& served, const Pool& pool, int port) {
  Tree resources = {{kGpu, fmt::format("{}", gpus_of(*pool.spec))}};
  Tree ports = Tree::array({{{"name", "http"}, {"containerPort", port}}});
  if (served.has_pools()) {
    resources["rdma/ib"] = "1";
    ports.push_back({{"name", "nixl"}, {"containerPort", kSideChannel}});
  }
  Tree container = {{"name", "vllm"},
                    {"image", pool.image},
                    {"command", server_command(served.server)},
                    {"args", server_arguments(served, pool, port)},
                    {"ports", ports},
                    {"startupProbe", probe(port, 180)},
                    {"readinessProbe", probe(port, 3)},
                    {"livenessProbe", probe(port, 6)},
                    {"resources", {{"requests", resources}, {"limits", resources}}},
                    {"volumeMounts", Tree::array({{{"name", "shm"}, {"mountPath", "/dev/shm"}}})}};
  Tree environment = kubernetes_environment(served);
  environment.push_back(
      {{"name", "HF_TOKEN"},
       {"valueFrom", {{"secretKeyRef", {{"name", "llm-d-hf-token"}, {"key", "HF_TOKEN"}, {"optional", true}}}}}});
  container["env"] = environment;
  return container;
}

Tree sidecar() {
  return {{"name", "routing-sidecar"},
          {"image", kSidecarImage},
          {"restartPolicy", "Always"},
          {"args",
           {fmt::format("--port={}", kPort), fmt::format("--vllm-port={}", kBehindSidecar), "--kv-connector=nixlv2",
            "--secure-proxy=false"}},
          {"ports", Tree::array({{{"name", "proxy"}, {"containerPort", kPort}}})}};
}

Tree servers(const Served& served, const Pool& pool) {
  const std::string role = pool.role == Role::whole ? "prefill-decode" : pool.name;
  Tree labels = {{"app", kName}, {"llm-d.ai/role", role}};
  Tree pod = Tree::object();
  if (const auto type = node_type(*pool.spec)) pod["nodeSelector"] = {{kNodeType, *type}};
  const bool has_sidecar = pool.role == Role::decode;
  if (has_sidecar) pod["initContainers"] = Tree::array({sidecar()});
  pod["containers"] = Tree::array({server_container(served, pool, has_sidecar ? kBehindSidecar : kPort)});
  pod["volumes"] = Tree::array({{{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "16Gi"}}}}});
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", meta(fmt::format("{}-{}", kName, pool.name))},
          {"spec",
           {{"replicas", pool.spec->deployment.replicas},
            {"selector", {{"matchLabels", labels}}},
            {"template", {{"metadata", {{"labels", labels}}}, {"spec", pod}}}}}};
}

Tree inference_pool(const Served& served) {
  return {{"apiVersion", "inference.networking.k8s.io/v1"},
          {"kind", "InferencePool"},
          {"metadata", {{"name", kName}, {"annotations", {{kStudyKey, served.study}}}}},
          {"spec",
           {{"selector", {{"matchLabels", {{"app", kName}}}}},
            {"targetPorts", Tree::array({{{"number", kPort}}})},
            {"endpointPickerRef",
             {{"name", kPicker}, {"kind", "Service"}, {"port", {{"number", 9002}}}, {"failureMode", "FailClose"}}}}}};
}

Tree picker_deployment(const PickerConfig& config) {
  const Tree labels = {{"app", kPicker}};
  const Tree health = {{"grpc", {{"port", 9003}, {"service", "envoy.service.ext_proc.v3.ExternalProcessor"}}},
                       {"initialDelaySeconds", 5},
                       {"periodSeconds", 10}};
  const Tree container = {
      {"name", "epp"},
      {"image", kPickerImage},
      {"args",
       {fmt::format("--pool-name={}", kName), "--grpc-port=9002", "--grpc-health-port=9003",
        fmt::format("--refresh-metrics-interval={}", config.refresh),
        fmt::format("--config-file=/etc/epp/{}", kConfigFile)}},
      {"ports", Tree::array({{{"containerPort", 9002}}, {{"containerPort", 9003}}, {{"containerPort", 9090}}})},
      {"livenessProbe", health},
      {"readinessProbe", health},
      {"volumeMounts", Tree::array({{{"name", "config"}, {"mountPath", "/etc/epp"}}})}};
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", meta(kPicker)},
          {"spec",
           {{"replicas", 1},
            {"selector", {{"matchLabels", labels}}},
            {"template",
             {{"metadata", {{"labels", labels}}},
              {"spec",
               {{"serviceAccountName", kPicker},
                {"terminationGracePeriodSeconds", 130},
                {"containers", Tree::array({container})},
                {"volumes", Tree::array({{{"name", "config"}, {"configMap", {{"name", kPicker}}}}})}}}}}}}};
}

Tree rule(const Tree& groups, const Tree& resources, const Tree& verbs) {
  return {{"apiGroups", groups}, {"resources", resources}, {"verbs", verbs}};
}

std::vector<Tree> picker_objects(const PickerConfig& config) {
  const Tree look = {"get", "watch", "list"};
  const std::string_view rbac = "rbac.authorization.k8s.io";
  return {
      {{"apiVersion", "v1"},
       {"kind", "ConfigMap"},
       {"metadata", meta(kPicker)},
       {"data", {{kConfigFile, yaml_text(config.tree)}}}},
      {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", meta(kPicker)}},
      {{"apiVersion", "rbac.authorization.k8s.io/v1"},
       {"kind", "Role"},
       {"metadata", meta(kPicker)},
       {"rules",
        Tree::array({rule({"inference.networking.x-k8s.io"}, {"inferenceobjectives", "inferencemodelrewrites"}, look),
                     rule({"inference.networking.k8s.io"}, {"inferencepools"}, look), rule({""}, {"pods"}, look)})}},
      {{"apiVersion", "rbac.authorization.k8s.io/v1"},
       {"kind", "RoleBinding"},
       {"metadata", meta(kPicker)},
       {"subjects", Tree::array({{{"kind", "ServiceAccount"}, {"name", kPicker}}})},
       {"roleRef", {{"apiGroup", rbac}, {"kind", "Role"}, {"name", kPicker}}}},
      {{"apiVersion", "v1"},
       {"kind", "Service"},
       {"metadata", meta(kPicker)},
       {"spec",
        {{"selector", {{"app", kPicker}}},
         {"ports",
          Tree::array({{{"name", "grpc-ext-proc"}, {"port", 9002}, {"targetPort", 9002}, {"appProtocol", "http2"}},
                       {{"name", "metrics"}, {"port", 9090}, {"targetPort", 9090}}})}}}},
      picker_deployment(config),
      {{"apiVersion", "gateway.networking.k8s.io/v1"},
       {"kind", "HTTPRoute"},
       {"metadata", meta(kName)},
       {"spec",
        {{"parentRefs", Tree::array({{{"name", "inference-gateway"}}})},
         {"rules",
          Tree::array(
              {{{"matches", Tree::array({{{"path", {{"type", "PathPrefix"}, {"value", "/"}}}}})},
                {"backendRefs",
                 Tree::array({{{"group", "inference.networking.k8s.io"}, {"kind", "InferencePool"}, {"name", kName}}})},
                {"timeouts", {{"request", "0s"}}}}})}}}}};
}

std::string llm_d_problem(const Served& served) {
  const PointSpec& spec = *served.spec;
  if (served.server != sched::Server::vllm) return "its manifests are written for vLLM";
  if (spec.front_end != model::FrontEnd::none) return "the prediction is for servers behind Dynamo";
  return {};
}

std::string text_at(const Node& node, std::string_view path) {
  const auto found = inside(node, path);
  return found && found->is_scalar() ? found->as_string() : std::string();
}

// Returns the container of a Deployment that has GPUs; nullopt if this is not a Deployment of servers.
std::optional<Node> container_with_gpus(const Node& object) {
  const auto containers = inside(object, "spec/template/spec/containers");
  if (text_at(object, "kind") != "Deployment" || !containers || !containers->is_sequence()) return {};
  for (const configs::Item& item : containers->items())
    if (inside(item.value, "resources/limits") && inside(item.value, "resources/limits")->has(kGpu)) return item.value;
  return {};
}

FoundPool read_servers(const Node& object, const Node& container) {
  FoundPool pool{.name = "server", .where = object.where()};
  const auto labels = inside(object, "spec/template/metadata/labels");
  const auto label = labels && labels->is_map() ? labels->find("llm-d.ai/role") : std::nullopt;
  if (label) {
    constexpr std::array<std::string_view, 4> kRoles = {"prefill", "decode", "prefill-decode", "both"};
    const std::size_t index = label->as_one_of(kRoles);
    pool.name = index < 2 ? kRoles[index] : "server";
  }
  pool.image = token_of(need_inside(container, "image"));
  pool.replicas = token_of(need_inside(object, "spec/replicas"));
  pool.gpus = token_of(inside(container, "resources/limits")->at(kGpu));
  const auto selector = inside(object, "spec/template/spec/nodeSelector");
  if (selector && selector->is_map() && selector->has(kNodeType)) pool.node_type = token_of(selector->at(kNodeType));
  std::vector<Token> arguments;
  if (const auto command = inside(container, "command")) {
    arguments = tokens_of(*command);
    const auto serve =
        std::find_if(arguments.begin(), arguments.end(), [](const Token& t) { return t.text == "serve"; });
    arguments.erase(arguments.begin(), serve == arguments.end() ? arguments.end() : serve + 1);
  }
  for (Token& token : tokens_of(need_inside(container, "args"))) arguments.push_back(std::move(token));
  read_arguments(server_of_image(*pool.image), arguments, pool);
  if (const auto list = inside(container, "env")) read_environment(*list, pool);
  return pool;
}

// The picker's configuration is a block of text in the file. It begins on the line below its key.
void read_picker(std::span<const Node> documents, Found& found) {
  std::string refresh;
  for (const Node& object : documents) {
    const auto arguments = inside(object, "spec/template/spec/containers/0/args");
    if (!arguments || !arguments->is_sequence()) continue;
    constexpr std::string_view kRefresh = "--refresh-metrics-interval=";
    for (const Token& token : tokens_of(*arguments))
      if (token.text.starts_with(kRefresh)) refresh = token.text.substr(kRefresh.size());
  }
  for (const Node& object : documents) {
    if (text_at(object, "kind") != "ConfigMap") continue;
    for (const configs::Item& item : object.at("data").items()) {
      const std::string text = item.value.as_string();
      if (text.find("EndpointPickerConfig") == std::string::npos) continue;
      const std::string above(item.value.where().line, '\n');
      read_picker_config(configs::Document::from_text(above + text, item.value.where().file).root(), refresh, found);
      return;
    }
  }
  throw InputError(found.where, "found no ConfigMap with an EndpointPickerConfig");
}

}  // namespace

Written write_llm_d(const Served& served) {
  if (std::string reason = llm_d_problem(served); !reason.empty()) return {{}, std::move(reason)};
  PickerConfig config = picker_config(served);
  if (!config.refused.empty()) return {{}, std::move(config.refused)};
  std::string text = heading(served, product_named("llm-d")) +
                     yaml_comment(
                         "The endpoint picker is that of the Gateway API inference extension 1.5. A Gateway "
                         "named inference-gateway must exist.\n");
  std::vector<Tree> objects = {inference_pool(served)};
  for (const Pool& pool : served.pools) objects.push_back(servers(served, pool));
  for (Tree& object : picker_objects(config)) objects.push_back(std::move(object));
  for (const Tree& object : objects) text += "---\n" + yaml_text(object);
  return {text, {}, objects};
}

Found read_llm_d(std::span<const Node> documents) {
  Found found{.product = "llm-d", .where = documents.front().where(), .study = {}, .pools = {}, .local_prefill = {}};
  for (const Node& object : documents) {
    if (text_at(object, "kind") == "InferencePool") {
      found.where = object.where();
      const auto notes = inside(object, "metadata/annotations");
      if (notes && notes->is_map() && notes->has(kStudyKey)) found.study = token_of(notes->at(kStudyKey));
    }
    if (const auto container = container_with_gpus(object)) found.pools.push_back(read_servers(object, *container));
  }
  if (found.pools.empty()) throw InputError(found.where, "found no Deployment whose container has GPUs");
  read_picker(documents, found);
  return found;
}

}  // namespace plimsoll::study::deploy

// SPDX-License-Identifier: Apache-2.0
// The products whose manifests are written and read. A writer returns the text, or the reason why the product cannot
// run the predicted deployment.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/yaml_document.h"
#include "study/deploy/engine_options.h"
#include "study/deploy/served.h"
#include "study/deploy/yaml_text.h"

namespace plimsoll::study::deploy {

/// A manifest, or why there is none.
struct Written {
  std::string text, refused;
  std::vector<Tree> objects = {};  // the documents of the text
};

/// A pool of servers as found in a manifest.
struct FoundPool {
  std::string name;  // "server", "prefill", "decode"
  Where where;
  std::optional<Token> model = {}, image = {}, replicas = {}, gpus = {}, node_type = {};
  std::vector<Token> arguments = {};
  std::vector<std::pair<Token, std::string>> environment = {};  // name, value
  std::optional<Token> router = {};                             // YAML of deployment.router
};
/// A deployment as found in a manifest, in the product's own fields.
struct Found {
  std::string product;
  Where where;
  std::optional<Token> study;  // the annotation kStudyKey
  std::vector<FoundPool> pools;
  std::optional<Token> local_prefill;  // YAML
};

/// A product. The functions of the table throw InputError, with the place, for fields that they cannot read.
struct Product {
  std::string_view name, version, file;  // "llm-d", "0.8.0", "llm-d.yaml"
  Written (*write)(const Served& served);
  bool (*owns)(std::span<const configs::Node> documents);
  Found (*read)(std::span<const configs::Node> documents);
};
[[nodiscard]] std::span<const Product> products();

// Docker Compose: one machine, and nginx before several servers.
[[nodiscard]] Written write_compose(const Served& served);
[[nodiscard]] Found read_compose(std::span<const configs::Node> documents);
// llm-d: Kubernetes Deployments, an InferencePool and its endpoint picker.
[[nodiscard]] Written write_llm_d(const Served& served);
[[nodiscard]] Found read_llm_d(std::span<const configs::Node> documents);
// NVIDIA Dynamo: a DynamoGraphDeployment.
[[nodiscard]] Written write_dynamo(const Served& served);
[[nodiscard]] Found read_dynamo(std::span<const configs::Node> documents);
// The vLLM production stack: values of its Helm chart.
[[nodiscard]] Written write_production_stack(const Served& served);
[[nodiscard]] Found read_production_stack(std::span<const configs::Node> documents);

/// Returns the release of Dynamo that contains this engine, "0.8.1" for vLLM 0.12.0; nullopt if none is known. For vLLM
/// the minor version must be equal, for SGLang the whole version.
[[nodiscard]] std::optional<std::string> dynamo_release(sched::Server server, const std::string& version);
/// Returns the engine's version in a release of Dynamo.
[[nodiscard]] std::optional<std::string> engine_of_dynamo(sched::Server server, std::string_view release);

// Parts that several products use.

/// The port at which a deployment is reached.
inline constexpr int kPort = 8000;
/// The label of a Kubernetes node that states its instance type.
inline constexpr std::string_view kNodeType = "node.kubernetes.io/instance-type";

/// Returns the comment at the head of a manifest.
[[nodiscard]] std::string heading(const Served& served, const Product& product);
[[nodiscard]] const Product& product_named(std::string_view name);
/// Returns "command" of a server's container, up to the model.
[[nodiscard]] std::vector<std::string> server_command(sched::Server server);
/// Returns the model, host, port and options of a pool's servers, as arguments after server_command().
[[nodiscard]] std::vector<std::string> server_arguments(const Served& served, const Pool& pool, int port);
/// Returns the rule that routes to the pool's servers; nullopt if there is one server, so that the rule does not
/// matter.
[[nodiscard]] std::optional<sched::RouterKind> router_of(const PointSpec& spec);
[[nodiscard]] std::string router_refusal(std::string_view product, const PointSpec& spec, std::string_view known);
/// Returns the environment as a Kubernetes list of {name, value}.
[[nodiscard]] Tree kubernetes_environment(const Served& served);

/// Returns a scalar as a token. The text of any other value is its YAML.
[[nodiscard]] Token token_of(const configs::Node& node);
/// Returns the node at a path of keys and list indices ("spec/template/0"); nullopt if there is none.
[[nodiscard]] std::optional<configs::Node> inside(const configs::Node& node, std::string_view path);
/// Returns the node; throws InputError at `node` if it is missing.
[[nodiscard]] configs::Node need_inside(const configs::Node& node, std::string_view path);
/// Splits command-line arguments: the model, then options; host and port are left out.
void read_arguments(sched::Server server, const std::vector<Token>& arguments, FoundPool& pool);
[[nodiscard]] std::vector<Token> tokens_of(const configs::Node& list);
/// Reads a list of {name, value}.
void read_environment(const configs::Node& list, FoundPool& pool);
/// Returns which product's server an image contains. Throws InputError for an unknown image.
[[nodiscard]] sched::Server server_of_image(const Token& image);

/// The configuration of llm-d's endpoint picker: one scheduling profile for each pool, the decider between a local and
/// a remote prefill, and the producer of prefix matches.
struct PickerConfig {
  Tree tree;            // EndpointPickerConfig
  std::string refresh;  // how often the picker asks the servers: "50ms"
  std::string refused;  // why the picker cannot route as predicted; empty: it can
};
[[nodiscard]] PickerConfig picker_config(const Served& served);

/// Reads the routers of the pools and the decider. `refresh`: "50ms"; empty: not stated. Throws InputError.
void read_picker_config(const configs::Node& config, const std::string& refresh, Found& found);

}  // namespace plimsoll::study::deploy

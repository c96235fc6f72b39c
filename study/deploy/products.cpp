// SPDX-License-Identifier: Apache-2.0
#include "study/deploy/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "model/error.h"
#include "study/output/deployment_flags.h"

namespace plimsoll::study::deploy {
namespace {

using configs::Node;
using sched::Server;

bool owns_kind(std::span<const Node> documents, std::string_view kind) {
  return std::any_of(documents.begin(), documents.end(), [&](const Node& node) {
    const auto own = inside(node, "kind");
    return own && own->is_scalar() && own->as_string() == kind;
  });
}
bool owns_key(std::span<const Node> documents, std::string_view key) {
  return documents.size() == 1 && inside(documents.front(), key).has_value();
}

constexpr std::array<Product, 4> kProducts = {{
    {"Docker Compose", "2.23", "compose.yaml", write_compose,
     [](std::span<const Node> d) { return owns_key(d, "services"); }, read_compose},
    {"llm-d", "0.8.0", "llm-d.yaml", write_llm_d, [](std::span<const Node> d) { return owns_kind(d, "InferencePool"); },
     read_llm_d},
    {"Dynamo", "", "dynamo.yaml", write_dynamo,
     [](std::span<const Node> d) { return owns_kind(d, "DynamoGraphDeployment"); }, read_dynamo},
    {"production stack", "0.1.12", "production-stack.yaml", write_production_stack,
     [](std::span<const Node> d) { return owns_key(d, "servingEngineSpec"); }, read_production_stack},
}};

struct DynamoRelease {
  std::string_view release, vllm, sglang;
};
// The engine versions that each release of the package ai-dynamo requires.
constexpr std::array<DynamoRelease, 9> kDynamo = {{{"0.6.1", "0.10.2", "0.5.3.post2"},
                                                   {"0.7.1", "0.11.0", "0.5.4.post3"},
                                                   {"0.8.1", "0.12.0", "0.5.6.post2"},
                                                   {"1.0.2", "0.16.0", "0.5.9"},
                                                   {"1.1.1", "0.19.0", "0.5.10.post1"},
                                                   {"1.2.1", "0.20.1", "0.5.11"},
                                                   {"1.3.1", "0.23.0", "0.5.14"},
                                                   {"1.4.2", "0.26.0", "0.5.16"},
                                                   {"1.5.1", "0.28.0", "0.5.18"}}};

std::string_view in_release(const DynamoRelease& row, Server server) {
  return server == Server::sglang ? row.sglang : row.vllm;
}

}  // namespace

std::span<const Product> products() { return kProducts; }

const Product& product_named(std::string_view name) {
  return *std::find_if(kProducts.begin(), kProducts.end(), [&](const Product& p) { return p.name == name; });
}

std::optional<std::string> dynamo_release(Server server, const std::string& version) {
  for (const DynamoRelease& row : kDynamo) {
    const std::string_view own = in_release(row, server);
    // vLLM's scheduler changes between minor versions. SGLang has been at 0.5 for a year, so its whole version counts.
    if (own == version || (server == Server::vllm && minor_of(own) == minor_of(version)))
      return std::string(row.release);
  }
  return {};
}

std::optional<std::string> engine_of_dynamo(Server server, std::string_view release) {
  for (const DynamoRelease& row : kDynamo)
    if (row.release == release) return std::string(in_release(row, server));
  return {};
}

std::string heading(const Served& served, const Product& product) {
  std::string text = "SPDX-License-Identifier: Apache-2.0\n" + served.title + '\n';
  text += product.version.empty() ? fmt::format("For {}.", product.name)
                                  : fmt::format("For {} {}.", product.name, product.version);
  text += " States every setting that the prediction depends on, including defaults (docs/deployments.md).\n";
  text += fmt::format("'plimsoll init --from-deployment {}' reads it back.\n", product.file);
  return yaml_comment(text);
}

std::vector<std::string> server_command(Server server) {
  if (server == Server::sglang) return {"python3", "-m", "sglang.launch_server"};
  return {"vllm", "serve"};
}

std::vector<std::string> server_arguments(const Served& served, const Pool& pool, int port) {
  std::vector<std::string> arguments;
  if (served.server == Server::sglang) arguments.emplace_back("--model-path");
  for (const std::string& text : {served_model(*pool.spec), std::string("--host"), std::string("0.0.0.0"),
                                  std::string("--port"), fmt::format("{}", port)})
    arguments.push_back(text);
  for (std::string& text : arguments_of(server_options(served, pool))) arguments.push_back(std::move(text));
  return arguments;
}

std::optional<sched::RouterKind> router_of(const PointSpec& spec) {
  const Deployment& d = spec.deployment;
  // Dynamo's router also holds requests back while a server is full, so it matters for one server too.
  if (d.replicas == 1 && d.router != sched::RouterKind::dynamo) return {};
  return d.router;
}

std::string router_refusal(std::string_view product, const PointSpec& spec, std::string_view known) {
  return fmt::format("{} has no router {}; it has {}", product, sched::name(spec.deployment.router), known);
}

Tree kubernetes_environment(const Served& served) {
  Tree list = Tree::array();
  for (const auto& [name, value] : server_environment(served)) {
    if (value == kPodAddress)
      list.push_back({{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}});
    else
      list.push_back({{"name", name}, {"value", value}});
  }
  return list;
}

Token token_of(const Node& node) { return {node.is_scalar() ? node.as_string() : node.to_text(), node.where()}; }

std::optional<Node> inside(const Node& node, std::string_view path) {
  Node here = node;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view key = path.substr(begin, end - begin);
    if (here.is_sequence()) {
      std::size_t index = 0;
      const std::vector<configs::Item> items = here.items();
      const auto number = std::from_chars(key.data(), key.data() + key.size(), index);
      if (number.ec != std::errc() || index >= items.size()) return {};
      here = items[index].value;
    } else {
      const auto next = here.is_map() ? here.find(key) : std::nullopt;
      if (!next) return {};
      here = *next;
    }
    begin = end + 1;
  }
  return here;
}

Node need_inside(const Node& node, std::string_view path) {
  const auto found = inside(node, path);
  if (!found) node.fail(fmt::format("found no {}", path));
  return *found;
}

void read_arguments(Server server, const std::vector<Token>& arguments, FoundPool& pool) {
  constexpr std::array<std::string_view, 4> kAddress = {"--host", "--port", "--uvicorn-log-level", "--log-level"};
  std::size_t begin = 0;
  if (server == Server::vllm && !arguments.empty() && !arguments.front().text.starts_with("--"))
    pool.model = arguments[begin++];
  const std::vector<GivenOption> options =
      options_of({arguments.begin() + static_cast<std::ptrdiff_t>(begin), arguments.end()});
  for (const GivenOption& option : options) {
    const std::string& name = option.name.text;
    if (std::find(kAddress.begin(), kAddress.end(), name) != kAddress.end()) continue;
    if (option.value && (name == "--model-path" || name == "--model")) {
      pool.model = option.value;
      continue;
    }
    pool.arguments.push_back(option.name);
    if (option.value) pool.arguments.push_back(*option.value);
  }
}

std::vector<Token> tokens_of(const Node& list) {
  if (!list.is_sequence()) list.fail("expected a list of arguments");
  std::vector<Token> tokens;
  for (const configs::Item& item : list.items()) {
    if (!item.value.is_scalar()) item.value.fail("expected one argument");
    tokens.push_back(token_of(item.value));
  }
  return tokens;
}

void read_environment(const Node& list, FoundPool& pool) {
  for (const configs::Item& item : list.items()) {
    const auto name = inside(item.value, "name"), value = inside(item.value, "value");
    if (name && value) pool.environment.emplace_back(token_of(*name), token_of(*value).text);
  }
}

Server server_of_image(const Token& image) {
  for (const auto& [word, server] : {std::pair("vllm", Server::vllm), {"sglang", Server::sglang}}) {
    if (image.text.find(word) != std::string::npos) return server;
  }
  throw InputError(image.where, fmt::format("found image '{}', expected one of vLLM or SGLang", image.text));
}

}  // namespace plimsoll::study::deploy

// SPDX-License-Identifier: Apache-2.0
// Docker Compose: servers on one machine, with nginx in front if there are several. With vLLM's own balancer no nginx
// is needed: one server starts all engines.
#include <fmt/format.h>

#include <array>

#include "model/error.h"
#include "sched/router.h"
#include "study/deploy/products.h"
#include "study/run/resolve.h"

namespace plimsoll::study::deploy {
namespace {

using configs::Node;
using sched::RouterKind;
using sched::Server;

constexpr std::string_view kNginx = "nginx:1.28.0", kBalancer = "nginx.conf", kAnnotation = "x-plimsoll";
constexpr std::string_view kDataParallel = "--data-parallel-size", kFrontEnds = "--api-server-count";

/// A rule of nginx's upstream block.
struct Rule {
  RouterKind router;
  std::string_view line;
};
constexpr std::array<Rule, 4> kRules = {{{RouterKind::least_outstanding, "least_conn;"},
                                         {RouterKind::round_robin, "# round robin is nginx's default"},
                                         {RouterKind::random, "random;"},
                                         {RouterKind::power_of_two, "random two least_conn;"}}};

std::string compose_problem(const Served& served) {
  const PointSpec& spec = *served.spec;
  if (served.has_pools()) return "Compose starts servers on one machine, but the pools run on separate instances";
  const ResolvedPoint point = resolve_spec(spec);
  if (point.result.instances > 1)
    return fmt::format("Compose starts servers on one machine, but the deployment needs {} instances",
                       point.result.instances);
  if (spec.front_end != model::FrontEnd::none) return "the prediction is for servers behind Dynamo";
  if (spec.deployment.replicas == 1) return {};
  if (spec.deployment.router == RouterKind::vllm_dp) {
    if (served.server != Server::vllm) return "router vllm_dp is vLLM's own balancer";
    const Nanos own = sched::router_info(RouterKind::vllm_dp).report_every;
    if (spec.deployment.router_options.report_every.value_or(own) != own)
      return "vLLM's balancer has no option for the interval of its reports (router: stale)";
    if (spec.shape && spec.shape->moe)
      return "vLLM's data-parallel engines of a model with experts run in lock step, which is not modelled";
    return {};
  }
  for (const Rule& rule : kRules)
    if (rule.router == spec.deployment.router) return {};
  return router_refusal("nginx", spec, "least_outstanding, round_robin, random, power_of_two");
}

std::string nginx_text(const PointSpec& spec) {
  std::string_view rule;
  for (const Rule& row : kRules)
    if (row.router == spec.deployment.router) rule = row.line;
  std::string servers;
  for (std::int32_t i = 0; i < spec.deployment.replicas; ++i)
    servers += fmt::format("    server server-{}:{} max_fails=0;\n", i, kPort);
  // nginx gets one worker process, because each worker counts only its own requests.
  return fmt::format(
      "worker_processes 1;\nevents {{\n  worker_connections 65536;\n}}\nhttp {{\n  upstream servers {{\n    {}\n{}  "
      "}}\n"
      "  server {{\n    listen {};\n    location / {{\n      proxy_pass http://servers;\n      proxy_http_version "
      "1.1;\n"
      "      proxy_buffering off;\n      proxy_request_buffering off;\n      client_max_body_size 0;\n"
      "      proxy_read_timeout 24h;\n    }}\n  }}\n}}\n",
      rule, servers, kPort);
}

Tree server_tree(const Served& served, std::int32_t index, std::int32_t engines) {
  const Pool& pool = served.decode();
  const std::int32_t gpus = gpus_of(*pool.spec) * engines;
  Tree ids = Tree::array();
  for (std::int32_t g = 0; g < gpus; ++g) ids.push_back(fmt::format("{}", index * gpus + g));
  std::vector<std::string> arguments = server_arguments(served, pool, kPort);
  if (engines > 1) {
    for (const std::string& text : {std::string(kDataParallel), fmt::format("{}", engines), std::string(kFrontEnds),
                                    fmt::format("{}", pool.spec->deployment.router_options.clients)})
      arguments.push_back(text);
  }
  const std::string check =
      fmt::format("import urllib.request; urllib.request.urlopen('http://127.0.0.1:{}/health')", kPort);
  return {
      {"image", pool.image},
      {"entrypoint", server_command(served.server)},
      {"command", arguments},
      {"environment", {{"HF_TOKEN", "${HF_TOKEN:-}"}}},
      {"shm_size", "16gb"},
      {"healthcheck",
       {{"test", {"CMD", "python3", "-c", check}},
        {"interval", "10s"},
        {"timeout", "5s"},
        {"retries", 3},
        {"start_period", "30m"}}},
      {"restart", "unless-stopped"},
      {"deploy",
       {{"resources",
         {{"reservations",
           {{"devices", Tree::array({{{"driver", "nvidia"}, {"device_ids", ids}, {"capabilities", {"gpu"}}}})}}}}}}}};
}

std::optional<std::int64_t> engines_of(FoundPool& pool) {
  std::optional<std::int64_t> engines;
  std::vector<Token> rest;
  std::string clients = "1";
  for (std::size_t i = 0; i < pool.arguments.size(); ++i) {
    const std::string& name = pool.arguments[i].text;
    if ((name != kDataParallel && name != kFrontEnds) || i + 1 == pool.arguments.size()) {
      rest.push_back(pool.arguments[i]);
      continue;
    }
    const Token& value = pool.arguments[++i];
    if (name == kFrontEnds) clients = value.text;
    if (name == kDataParallel) {
      pool.replicas = value;
      engines = std::atoll(value.text.c_str());
    }
  }
  pool.arguments = rest;
  if (engines) pool.router = Token{fmt::format("{{policy: vllm_dp, clients: {}}}", clients), pool.where};
  return engines;
}

RouterKind rule_of(const Node& content) {
  const std::string text = content.as_string();
  if (text.find("random two least_conn;") != std::string::npos) return RouterKind::power_of_two;
  if (text.find("random;") != std::string::npos) return RouterKind::random;
  if (text.find("least_conn;") != std::string::npos) return RouterKind::least_outstanding;
  for (const char* const other : {"ip_hash;", "hash ", "least_time"})
    if (text.find(other) != std::string::npos)
      content.fail(fmt::format("found nginx's rule '{}', which matches no router of a study", other));
  return RouterKind::round_robin;
}

// The servers of one machine are equal, so the first one describes all.
FoundPool read_server(const Node& service) {
  FoundPool pool{.name = "server", .where = service.where()};
  pool.image = token_of(need_inside(service, "image"));
  read_arguments(server_of_image(*pool.image), tokens_of(need_inside(service, "command")), pool);
  const Node ids = need_inside(service, "deploy/resources/reservations/devices/0/device_ids");
  const std::int64_t engines = engines_of(pool).value_or(1);
  const auto gpus = static_cast<std::int64_t>(ids.items().size());
  if (engines < 1 || gpus % engines != 0) ids.fail(fmt::format("found {} GPUs for {} engines", gpus, engines));
  pool.gpus = Token{fmt::format("{}", gpus / engines), ids.where()};
  return pool;
}

}  // namespace

Written write_compose(const Served& served) {
  if (std::string reason = compose_problem(served); !reason.empty()) return {{}, std::move(reason)};
  const PointSpec& spec = *served.spec;
  const bool own_balancer = spec.deployment.replicas > 1 && spec.deployment.router == RouterKind::vllm_dp;
  const std::int32_t engines = own_balancer ? spec.deployment.replicas : 1;
  const std::int32_t servers = own_balancer ? 1 : spec.deployment.replicas;
  Tree services = Tree::object(), waits = Tree::object();
  for (std::int32_t i = 0; i < servers; ++i) {
    const std::string name = fmt::format("server-{}", i);
    services[name] = server_tree(served, i, engines);
    waits[name] = {{"condition", "service_healthy"}};
  }
  Tree file = {{"name", "plimsoll"}, {kAnnotation, {{"study", served.study}}}};
  const Tree port = Tree::array({fmt::format("{0}:{0}", kPort)});
  if (servers == 1) {
    services["server-0"]["ports"] = port;
  } else {
    services["router"] = {{"image", kNginx},
                          {"ports", port},
                          {"configs", Tree::array({{{"source", kBalancer}, {"target", "/etc/nginx/nginx.conf"}}})},
                          {"depends_on", waits}};
    file["configs"] = {{kBalancer, {{"content", nginx_text(spec)}}}};
  }
  file["services"] = services;
  return {heading(served, product_named("Docker Compose")) + yaml_text(file), {}, {file}};
}

Found read_compose(std::span<const Node> documents) {
  const Node& root = documents.front();
  Found found{.product = "Docker Compose", .where = root.where(), .study = {}, .pools = {}, .local_prefill = {}};
  if (const auto study = inside(root, std::string(kAnnotation) + "/study")) found.study = token_of(*study);
  std::int64_t servers = 0;
  for (const configs::Item& service : root.at("services").items()) {
    if (service.key == "router") continue;
    ++servers;
    FoundPool pool = read_server(service.value);
    if (found.pools.empty()) {
      found.pools.push_back(std::move(pool));
      continue;
    }
    const FoundPool& first = found.pools.front();
    const auto text = [](const FoundPool& p) {
      std::string all = p.image->text + ' ' + p.gpus->text;
      for (const Token& argument : p.arguments) all += ' ' + argument.text;
      return all;
    };
    if (text(pool) != text(first)) service.value.fail("servers of one deployment have equal images and options");
  }
  if (found.pools.empty()) root.fail("found no server among the services");
  FoundPool& pool = found.pools.front();
  if (!pool.replicas) pool.replicas = Token{fmt::format("{}", servers), root.at("services").where()};
  const auto content = inside(root, fmt::format("configs/{}/content", kBalancer));
  if (content) pool.router = Token{std::string(sched::name(rule_of(*content))), content->where()};
  return found;
}

}  // namespace plimsoll::study::deploy

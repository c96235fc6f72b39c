// SPDX-License-Identifier: Apache-2.0
#include "study/deploy/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "model/error.h"
#include "sched/router.h"

namespace plimsoll::study::deploy {
namespace {

using configs::Node;
using load::LocalPrefill;
using sched::RouterKind;
using sched::RouterOptions;

constexpr std::string_view kProducer = "approx-prefix-cache-producer", kPrefix = "prefix-cache-scorer",
                           kActive = "active-request-scorer", kLeast = "least-outstanding",
                           kDecider = "prefix-based-pd-decider", kAlways = "always-disagg-pd-decider",
                           kRandom = "random-picker", kBest = "max-score-picker", kHandler = "disagg-profile-handler";

/// A scorer and the weight that a study states for it.
struct Scorer {
  std::string_view type, key;
  double RouterOptions::*weight;
};
constexpr std::array<Scorer, 5> kScorers = {{{kPrefix, "prefix", &RouterOptions::prefix},
                                             {"queue-scorer", "queue", &RouterOptions::queue},
                                             {"kv-cache-utilization-scorer", "kv", &RouterOptions::kv},
                                             {kActive, "active", &RouterOptions::active},
                                             {"no-hit-lru-scorer", "no_hit_lru", &RouterOptions::no_hit_lru}}};

// The picker counts a request until its answer has ended, at most for requestTimeout.
Tree active_parameters() { return {{"requestTimeout", "24h"}, {"idleThreshold", 0}, {"maxBusyScore", 1.0}}; }

class Builder {
 public:
  explicit Builder(const Served& served) : served_(served) {}

  PickerConfig build() {
    for (const Pool& pool : served_.pools) add_profile(pool);
    add_handler();
    if (config_.refused.empty() && config_.refresh.empty()) config_.refresh = "50ms";
    Tree plugins = Tree::array();
    if (needs_prefixes_) {
      const RouterOptions& options = prefix_options_ ? *prefix_options_ : RouterOptions{};
      plugins.push_back({{"type", kProducer},
                         {"parameters",
                          {{"autoTune", false},
                           {"blockSizeTokens", kBlock},
                           {"maxPrefixBlocksToMatch", options.match_blocks},
                           {"lruCapacityPerServer", options.known_blocks}}}});
    }
    for (auto& plugin : plugins_) plugins.push_back(std::move(plugin));
    config_.tree = {{"apiVersion", "inference.networking.x-k8s.io/v1alpha1"}, {"kind", "EndpointPickerConfig"}};
    config_.tree["featureGates"] = {"prepareDataPlugins"};
    config_.tree["plugins"] = std::move(plugins);
    config_.tree["schedulingProfiles"] = std::move(profiles_);
    return std::move(config_);
  }

 private:
  static constexpr int kBlock = 16;  // tokens of a block, as in the workload

  void refuse(const std::string& text) {
    if (config_.refused.empty()) config_.refused = text;
  }

  void add_plugin(Tree plugin) {
    if (std::find(plugins_.begin(), plugins_.end(), plugin) == plugins_.end()) plugins_.push_back(std::move(plugin));
  }

  void add_profile(const Pool& pool) {
    Tree refs = Tree::array();
    if (pool.role != sched::Role::whole) {
      const std::string filter = pool.name + "-filter";
      add_plugin({{"type", filter}});
      refs.push_back({{"pluginRef", filter}});
    }
    add_router(*pool.spec, refs);
    // The producer remembers prompts of the prefill side only if its profile has this name.
    profiles_.push_back({{"name", pool.role == sched::Role::whole ? "default" : pool.name}, {"plugins", refs}});
  }

  void add_router(const PointSpec& spec, Tree& refs) {
    std::string_view picker = kBest;
    switch (router_of(spec).value_or(RouterKind::least_outstanding)) {
      case RouterKind::random: picker = kRandom; break;
      case RouterKind::least_outstanding:
        add_plugin({{"type", kActive}, {"name", kLeast}, {"parameters", active_parameters()}});
        refs.push_back({{"pluginRef", kLeast}, {"weight", 1.0}});
        break;
      case RouterKind::scored: add_scores(spec.deployment.router_options, refs); break;
      default: refuse(router_refusal("llm-d", spec, "scored, least_outstanding, random")); return;
    }
    add_plugin({{"type", picker}});
    refs.push_back({{"pluginRef", picker}});
  }

  void add_scores(const RouterOptions& options, Tree& refs) {
    for (const Scorer& scorer : kScorers) {
      const double weight = options.*scorer.weight;
      if (weight == 0) continue;
      Tree plugin = {{"type", scorer.type}};
      if (scorer.type == kActive) plugin["parameters"] = active_parameters();
      add_plugin(std::move(plugin));
      refs.push_back({{"pluginRef", scorer.type}, {"weight", weight}});
    }
    if (refs.empty()) refuse("router scored has no weight above 0");
    needs_prefixes_ = needs_prefixes_ || options.prefix > 0 || options.no_hit_lru > 0;
    if (prefix_options_ && (prefix_options_->match_blocks != options.match_blocks ||
                            prefix_options_->known_blocks != options.known_blocks))
      refuse("llm-d has one prefix producer, so both pools need equal match_blocks and known_blocks");
    prefix_options_ = options;
    const Nanos every = options.report_every.value_or(sched::router_info(RouterKind::scored).report_every);
    const std::string refresh =
        every % 1'000'000 == 0 ? fmt::format("{}ms", every / 1'000'000) : fmt::format("{}ns", every);
    if (every == 0) refuse("llm-d's endpoint picker reads metrics at intervals, so stale must be above 0 s");
    if (!config_.refresh.empty() && config_.refresh != refresh)
      refuse("llm-d has one endpoint picker, so the routers of both pools need the same value of stale");
    config_.refresh = refresh;
  }

  void add_handler() {
    if (!served_.has_pools()) {
      add_plugin({{"type", "single-profile-handler"}});
      return;
    }
    const LocalPrefill& local = served_.spec->local_prefill;
    if (local.policy != LocalPrefill::Policy::never && local.policy != LocalPrefill::Policy::uncached)
      refuse(
          "llm-d decides by the tokens that are not cached (local_prefill: {uncached: N}), or never prefills locally");
    const bool never = local.policy == LocalPrefill::Policy::never;
    Tree decider = {{"type", never ? kAlways : kDecider}};
    // The product prefills locally below its threshold, a study up to its own, hence + 1. A threshold of 0 would
    // disable the prefill pool.
    if (!never) decider["parameters"] = {{"nonCachedTokens", local.tokens + 1}};
    needs_prefixes_ = needs_prefixes_ || !never;
    add_plugin({{"type", "disagg-headers-handler"}});
    const std::string name = decider["type"];
    add_plugin(std::move(decider));
    add_plugin({{"type", kHandler},
                {"parameters",
                 {{"profiles", {{"decode", "decode"}, {"prefill", "prefill"}}}, {"deciders", {{"prefill", name}}}}}});
  }

  const Served& served_;
  PickerConfig config_;
  std::vector<Tree> plugins_;
  Tree profiles_ = Tree::array();
  std::optional<RouterOptions> prefix_options_;
  bool needs_prefixes_ = false;
};

/// The plugins of a configuration by name.
class Plugins {
 public:
  explicit Plugins(const Node& config) {
    for (const configs::Item& item : config.at("plugins").items()) {
      const std::string type = item.value.at("type").as_string();
      const auto name = item.value.find("name");
      plugins_.emplace(name ? name->as_string() : type, item.value);
      if (type == kProducer) check_producer(item.value);
    }
  }
  [[nodiscard]] Node plugin(const Node& reference) const {
    const auto found = plugins_.find(reference.as_string());
    if (found == plugins_.end()) reference.fail(fmt::format("found no plugin named '{}'", reference.as_string()));
    return found->second;
  }
  [[nodiscard]] std::optional<Node> of_type(std::string_view type) const {
    for (const auto& [name, node] : plugins_)
      if (node.at("type").as_string() == type) return node;
    return {};
  }

 private:
  static void check_producer(const Node& plugin) {
    const Node tuned = need_inside(plugin, "parameters/autoTune");
    if (tuned.as_bool())
      tuned.fail("found autoTune: true, which takes block sizes and capacities from the servers; expected false");
    static_cast<void>(need_inside(plugin, "parameters/blockSizeTokens").as_integer(1, 1'000'000));
  }
  std::map<std::string, Node> plugins_;
};

std::string quantity_of(const std::string& duration) {
  const std::size_t unit = duration.find_first_not_of("0123456789.");
  return unit == std::string::npos ? duration : duration.substr(0, unit) + ' ' + duration.substr(unit);
}

std::string producer_text(const Plugins& plugins) {
  const auto producer = plugins.of_type(kProducer);
  if (!producer) return {};
  std::string text;
  for (const auto& [theirs, ours] :
       {std::pair("maxPrefixBlocksToMatch", "match_blocks"), {"lruCapacityPerServer", "known_blocks"}})
    if (const auto value = inside(*producer, fmt::format("parameters/{}", theirs)))
      text += fmt::format(", {}: {}", ours, value->as_integer(1));
  return text;
}

// Returns the router of one profile as YAML.
std::string router_text(const Node& profile, const Plugins& plugins, const std::string& refresh) {
  std::string weights, picker;
  bool least = false, any = false;
  for (const configs::Item& item : profile.at("plugins").items()) {
    const Node plugin = plugins.plugin(item.value.at("pluginRef"));
    const std::string type = plugin.at("type").as_string(), name = item.value.at("pluginRef").as_string();
    if (type.ends_with("-filter")) continue;
    if (type.ends_with("-picker")) {
      picker = type;
      if (type != kBest && type != kRandom)
        plugin.fail(fmt::format("found '{}', expected {} or {}", type, kBest, kRandom));
      continue;
    }
    const auto weight = item.value.find("weight");
    const std::string text = weight ? fmt::format("{}", weight->as_number(0, 1e6)) : "1";
    const auto* const scorer =
        std::find_if(kScorers.begin(), kScorers.end(), [&](const Scorer& s) { return s.type == type; });
    if (scorer == kScorers.end())
      plugin.fail(fmt::format("found scorer '{}', which matches no router of a study", type));
    least = least || name == kLeast;
    any = true;
    weights += fmt::format(", {}: {}", scorer->key, text);
  }
  if (!any) return picker == kRandom ? "random" : "";
  if (picker == kRandom) profile.fail("found scorers beside random-picker, which ignores them");
  if (least) return "least_outstanding";
  for (const Scorer& scorer : kScorers)
    if (weights.find(fmt::format(", {}:", scorer.key)) == std::string::npos)
      weights += fmt::format(", {}: 0", scorer.key);
  return fmt::format("{{policy: scored{}{}{}}}", weights, producer_text(plugins),
                     refresh.empty() ? "" : ", stale: " + quantity_of(refresh));
}

void read_decider(const Plugins& plugins, Found& found) {
  const auto handler = plugins.of_type(kHandler);
  if (!handler) throw InputError(found.where, fmt::format("two pools need the plugin {}", kHandler));
  const Node decider = plugins.plugin(need_inside(*handler, "parameters/deciders/prefill"));
  const Node type = decider.at("type");
  if (type.as_string() == kAlways) {
    found.local_prefill = Token{"never", type.where()};
    return;
  }
  if (type.as_string() != kDecider)
    type.fail(fmt::format("found '{}', expected {} or {}", type.as_string(), kDecider, kAlways));
  const auto threshold = inside(decider, "parameters/nonCachedTokens");
  if (!threshold) decider.fail("found no nonCachedTokens; without it nothing is prefilled on the prefill servers");
  const std::int64_t tokens = threshold->as_integer(0, 1'000'000'000);
  if (tokens == 0) threshold->fail("found 0, which turns the prefill servers off; expected 1 or more");
  found.local_prefill =
      Token{tokens == 1 ? std::string("never") : fmt::format("{{uncached: {}}}", tokens - 1), threshold->where()};
}

}  // namespace

PickerConfig picker_config(const Served& served) { return Builder(served).build(); }

void read_picker_config(const Node& config, const std::string& refresh, Found& found) {
  const Plugins plugins(config);
  for (const configs::Item& item : config.at("schedulingProfiles").items()) {
    const std::string name = item.value.at("name").as_string();
    for (FoundPool& pool : found.pools) {
      if (pool.name != name && pool.name != "server") continue;
      const std::string router = router_text(item.value, plugins, refresh);
      if (router.empty())
        item.value.fail("found a profile without scorers, which routes at random; state random-picker");
      pool.router = Token{router, item.value.where()};
    }
  }
  if (found.pools.size() > 1) read_decider(plugins, found);
}

}  // namespace plimsoll::study::deploy

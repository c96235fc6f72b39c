// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sched/policy_table.h"
#include "study/file/read_point.h"
#include "study/file/scheduler_names.h"
#include "study/file/section.h"

namespace plimsoll::study {
namespace {

using configs::Catalogue;
using configs::Document;
using configs::Node;
using Keys = std::vector<std::string_view>;

constexpr std::array<std::string_view, 8> kDeploymentKeys = {"replicas", "tp",        "pp",          "ep",
                                                             "router",   "instances", "autoscaling", "failures"};

Nanos to_nanos(Seconds time) { return std::llround(time.count() * 1e9); }

Node deployment_of(const Node& root) { return root.at("deployment"); }

// Replaces hardware by a rate: an engine of constant cost, whose steps take a fixed time per token. `name` is
// that of the pool, and thus of its work.
void put_rates(Document& document, const Node& pool, std::string_view name, const Node& rates) {
  if (const auto hardware = pool.find("hardware"))
    hardware->fail("'rates' replace hardware; state only one of the two");
  const std::string own = fmt::format("{}_tokens_per_s", name), other = name == "prefill" ? "decode" : "prefill";
  if (rates.is_map() && !rates.find(own) && rates.find(other + "_tokens_per_s"))
    rates.fail(fmt::format("the {} pool needs {}; the rate of the other work is optional here", name, own));
  document.remove("engine");
  document.remove("engine_front_end");
  document.remove("hardware");
  document.set("engine.constant.rates", rates);
}

// Engines of constant cost have no scheduler of their own. They get that of the study's engine, else vLLM's.
void put_policy(Document& document, const Node& root, const Catalogue& catalogue) {
  const auto engine = document.root().find("engine");
  const auto scheduler = document.root().find("scheduler");
  if (!engine || !engine->is_map() || (scheduler && scheduler->is_map() && scheduler->has("policy"))) return;
  const auto stated = root.find("engine");
  std::string policy(sched::name(sched::PolicyConfig{}.policy));
  if (stated && stated->is_scalar())
    policy = catalogue.engine(stated->as_string(), stated->where())->profile->scheduler_policy;
  document.set("scheduler.policy", policy, engine->where());
}

void read_local(const Node& node, PointSpec& spec) {
  using Policy = load::LocalPrefill::Policy;
  load::LocalPrefill& local = spec.local_prefill;
  if (!node.is_map()) {
    local.policy = static_cast<Policy>(node.as_one_of(load::kLocalPrefillNames));
    return;
  }
  const Section section(node, Keys{"policy", "tokens", "ratio", "queue", "uncached"});
  if (const auto uncached = section.find("uncached")) {
    if (section.has("policy")) uncached->fail("'uncached' already states the policy; omit 'policy'");
    local.policy = Policy::uncached;
    // For llm-d, 0 means "decode only", which is easily stated by mistake.
    local.tokens = static_cast<sched::Tok>(uncached->as_integer(1, kMaxTokens));
    return;
  }
  local.policy = static_cast<Policy>(section.need("policy", "isl").as_one_of(load::kLocalPrefillNames));
  if (const auto tokens = section.whole("tokens", 1, kMaxTokens)) local.tokens = static_cast<sched::Tok>(*tokens);
  if (const auto ratio = section.find("ratio")) local.ratio = ratio->as_number(0, 1e6);
  if (const auto queue = section.find("queue")) local.queue = queue->as_number(0, 1e6);
}

double read_bandwidth(const Node& node) {
  if (node.is_scalar() && node.as_string() == "unlimited") return std::numeric_limits<double>::infinity();
  const double bandwidth = node.as_bytes_per_second().value;
  if (bandwidth <= 0) node.fail("found a bandwidth of 0, expected more, or 'unlimited'");
  return bandwidth;
}

template <class Value, std::size_t n>
void take_choice(const Section& section, std::string_view key, const std::array<std::string_view, n>& names,
                 Value& value) {
  if (const auto node = section.find(key)) value = static_cast<Value>(node->as_one_of(names));
}

// The defaults are those of the product whose scheduler runs.
load::TransferConfig product_transfer(const sched::HandOver& product) {
  load::TransferConfig transfer;
  if (product.pushes) {
    transfer.mode = load::TransferMode::push;
    transfer.overlap = load::TransferOverlap::chunk;
  }
  if (product.prefill_emits) {
    transfer.first_token = load::FirstToken::prefill;
    transfer.load_failure = load::LoadFailure::fail;
  }
  return transfer;
}

void read_transfer(const Node& node, PointSpec& spec) {
  const Section section(node, Keys{"mode", "bandwidth", "path_bandwidth", "launch", "descriptor", "layout", "overlap",
                                   "first_token", "load_failure", "hold", "hop"});
  load::TransferConfig& transfer = spec.transfer;
  take_choice(section, "mode", load::kTransferModeNames, transfer.mode);
  take_choice(section, "overlap", load::kTransferOverlapNames, transfer.overlap);
  take_choice(section, "first_token", load::kFirstTokenNames, transfer.first_token);
  take_choice(section, "load_failure", load::kLoadFailureNames, transfer.load_failure);
  take_choice(section, "layout", load::kKvLayoutNames, transfer.layout);
  spec.transfer_stated = section.has("bandwidth");
  if (const auto bandwidth = section.find("bandwidth")) transfer.bandwidth = read_bandwidth(*bandwidth);
  if (const auto path = section.find("path_bandwidth")) transfer.path = read_bandwidth(*path);
  if (const auto launch = section.time("launch")) transfer.launch_s = launch->count();
  if (const auto descriptor = section.time("descriptor")) transfer.descriptor_s = descriptor->count();
  if (const auto hold = section.find("hold")) transfer.hold = to_nanos(read_positive_time(*hold));
  if (const auto hop = section.time("hop")) transfer.hop = to_nanos(*hop);
}

// Throws InputError for settings that the product of this policy does not support.
void check_product(const Node& deployment, const PointSpec& spec) {
  const std::string_view policy = sched::name(spec.policy.policy);
  const sched::HandOver& product = sched::policy_info(spec.policy.policy).hand_over;
  const auto refuse = [&](std::string_view key, std::string_view inner, const std::string& text) {
    const auto map = deployment.find(key);
    const auto value = map && map->is_map() ? map->find(inner) : map;
    throw InputError(value ? value->where() : deployment.where(), text);
  };
  if (!product.supported)
    throw InputError(
        spec.places.pools,
        fmt::format("policy {} has no pools for prefill and decode; allowed: {}", policy,
                    sched::policies_that([](const sched::PolicyInfo& p) { return p.hand_over.supported; })));
  if (spec.prefill->policy.policy != spec.policy.policy)
    throw InputError(spec.places.pools,
                     fmt::format("the pools run policies {} and {}; one product cannot read the KV cache of another",
                                 sched::name(spec.prefill->policy.policy), policy));
  if (spec.policy.capacity_policy == sched::CapacityPolicy::max_utilization)
    throw InputError(spec.places.pools, "pools with capacity_policy max_utilization are not modelled yet");
  if (product.prefill_emits && spec.transfer.load_failure == load::LoadFailure::recompute)
    refuse("transfer", "load_failure", fmt::format("with policy {} a request whose KV is lost always fails", policy));
  if (product.prefill_emits && spec.transfer.first_token == load::FirstToken::decode)
    refuse("transfer", "first_token",
           fmt::format("with policy {} the first token comes from the prefill side", policy));
  if (product.decode_prefills) return;
  if (spec.transfer.mode == load::TransferMode::pull)
    refuse("transfer", "mode",
           fmt::format("policy {} always pushes KV: the decode side allocates the blocks before the prefill", policy));
  if (spec.local_prefill.policy != load::LocalPrefill::Policy::never)
    refuse("local_prefill", "policy", fmt::format("the decode side of policy {} computes no prompts", policy));
}

}  // namespace

bool has_pools(const Node& root) {
  const auto deployment = root.is_map() ? root.find("deployment") : std::nullopt;
  const auto pools = deployment && deployment->is_map() ? deployment->find("pools") : std::nullopt;
  return pools && !pools->is_null() && !(pools->is_scalar() && pools->as_string() == "none");
}

Node pool_study(const Node& root, std::string_view pool, const Catalogue& catalogue) {
  const Node deployment = deployment_of(root);
  for (const std::string_view key : {"replicas", "instances", "autoscaling"})
    if (const auto value = deployment.find(key)) value->fail(fmt::format("with pools, state '{}' in each pool", key));
  const Section pools(deployment.at("pools"), Keys{"prefill", "decode"});
  const Node stated = pools.need(pool, "{replicas: 2, tp: 4}");
  const Section section(stated, Keys{"replicas", "tp", "pp", "ep", "router", "instances", "autoscaling", "failures",
                                     "hardware", "scheduler", "engine", "rates"});
  Document document = Document::of(root);
  for (const std::string_view key : {"pools", "transfer", "local_prefill"})
    document.remove(fmt::format("deployment.{}", key));
  for (const std::string_view key : kDeploymentKeys)
    if (const auto value = section.find(key)) document.set(fmt::format("deployment.{}", key), *value);
  for (const std::string_view key : {"hardware", "engine"})
    if (const auto value = section.find(key)) document.set(key, *value);
  if (const auto rates = section.find("rates")) put_rates(document, stated, pool, *rates);
  if (const auto scheduler = section.find("scheduler"))
    for (const configs::Item& item : scheduler->items()) set_scheduler_key(document, item.key, item.value);
  put_policy(document, root, catalogue);
  return document.root();
}

void read_handover(const Node& root, PointSpec& spec) {
  const Node deployment = deployment_of(root), pools = deployment.at("pools");
  spec.places.pools = pools.where();
  spec.places.prefill = pools.at("prefill").where();
  spec.places.decode = pools.at("decode").where();
  spec.places.transfer = deployment.where();
  spec.transfer = product_transfer(sched::policy_info(spec.policy.policy).hand_over);
  if (const auto transfer = deployment.find("transfer")) {
    spec.places.transfer = transfer->where();
    read_transfer(*transfer, spec);
  }
  if (const auto local = deployment.find("local_prefill")) read_local(*local, spec);
  check_product(deployment, spec);
  check_pool_search(root, spec);
}

void note_priorities(PointSpec& decode, const PointSpec& prefill) {
  const auto unused = [](const PointSpec& pool) {
    return std::find(pool.load_notes.begin(), pool.load_notes.end(), kPrioritiesUnused) != pool.load_notes.end();
  };
  if (unused(decode) == unused(prefill)) return;
  const std::string_view without = unused(decode) ? "decode" : "prefill";
  std::erase(decode.load_notes, kPrioritiesUnused);
  decode.load_notes.push_back(
      fmt::format("priorities have no effect in the {} pool: state scheduler.scheduling: priority there too", without));
}

void check_pool_search(const Node& root, const PointSpec& spec) {
  if (!spec.search) return;
  if (!has_pools(root)) {
    // A comparison with one pool keeps the `search` block of its study.
    const auto deployment = root.find("deployment");
    const bool stated = deployment && deployment->is_map() && deployment->has("pools");
    if (spec.search->pool_key && !stated)
      throw InputError(*spec.search->pool_key, "this key of search needs deployment.pools");
    return;
  }
  const Node search = root.at("search");
  for (const std::string_view key : {"replicas_per_instance", "instance_count"})
    if (const auto value = search.find(key))
      value->fail("with pools, state prefill.replicas and decode.replicas, or split: auto and replicas as their total");
  if (search.has("replicas") && !spec.search->finds_split)
    search.find("replicas")
        ->fail(
            "with pools, 'replicas' is the total that split: auto divides; state split: auto, or prefill.replicas and "
            "decode.replicas");
}

void refuse_pools(const Study& study, std::string_view verb) {
  const PointSpec first = study.point(0);
  if (first.prefill)
    throw InputError(first.places.pools,
                     fmt::format("{} does not handle pools for prefill and decode yet; simulate does", verb));
}

}  // namespace plimsoll::study

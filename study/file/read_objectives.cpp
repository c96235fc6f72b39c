// SPDX-License-Identifier: Apache-2.0
#include "study/file/read_point.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <set>

namespace plimsoll::study {
namespace {

using configs::Node;
using Keys = std::vector<std::string_view>;

constexpr std::array<std::string_view, 5> kMetrics = {"latency", "ttft", "tpot", "itl", "latency_per_token"};

// Parses "p99_itl", "p99.9_ttft", "mean_latency"; returns nullopt for any other key.
std::optional<sched::Slo::Bound> bound_named(std::string_view key) {
  const std::size_t underscore = key.find('_');
  if (underscore == std::string_view::npos) return {};
  const std::string_view statistic = key.substr(0, underscore), metric = key.substr(underscore + 1);
  sched::Slo::Bound bound;
  if (statistic != "mean") {
    double percent = 0;
    if (statistic.size() < 2 || statistic.front() != 'p') return {};
    const auto [end, error] =
        std::from_chars(statistic.data() + 1, statistic.data() + statistic.size(), percent, std::chars_format::fixed);
    if (error != std::errc() || end != statistic.data() + statistic.size() || !(percent > 0 && percent < 100))
      return {};
    bound.quantile = percent / 100;
  }
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    if (metric != kMetrics[i]) continue;
    bound.metric = static_cast<sched::Slo::Metric>(i);
    return bound;
  }
  return {};
}

// The names that "nearest known key" may suggest: the usual percentiles of every metric.
Keys slo_keys(const Node& node, std::vector<std::string>& storage) {
  for (const char* const statistic : {"mean", "p50", "p90", "p95", "p99"}) {
    for (const std::string_view metric : kMetrics) storage.push_back(fmt::format("{}_{}", statistic, metric));
  }
  for (const auto& entry : node.items()) {
    if (bound_named(entry.key)) storage.push_back(entry.key);
  }
  Keys keys(storage.begin(), storage.end());
  for (const char* const key : {"min_output_tokens_per_s", "min_requests_per_s", "max_timeout_rate", "min_goodput"}) {
    keys.emplace_back(key);
  }
  return keys;
}

/// A key of `search` that lists values of a study's key. The table is in the order in which candidates are named.
struct AxisKey {
  std::string_view key, path;
};
constexpr std::array<AxisKey, 11> kAxes = {{{"instances", "hardware"},
                                            {"tp", "deployment.tp"},
                                            {"pp", "deployment.pp"},
                                            {"replicas", "deployment.replicas"},
                                            {"routers", "deployment.router"},
                                            {"dtype", "dtype"},
                                            {"policies", "scheduler.policy"},
                                            {"max_running", "scheduler.max_running"},
                                            {"step_token_budget", "scheduler.step_token_budget"},
                                            {"prefill_token_budget", "scheduler.prefill_token_budget"},
                                            {"mem_fraction", "scheduler.mem_fraction"}}};

// The keys of `search.prefill` and `search.decode`, with their paths in a pool. Also written as `prefill.tp: [1, 2]`.
constexpr std::array<AxisKey, 9> kPoolAxes = {{{"instances", "hardware"},
                                               {"tp", "tp"},
                                               {"pp", "pp"},
                                               {"replicas", "replicas"},
                                               {"routers", "router"},
                                               {"max_running", "scheduler.max_running"},
                                               {"step_token_budget", "scheduler.step_token_budget"},
                                               {"prefill_token_budget", "scheduler.prefill_token_budget"},
                                               {"mem_fraction", "scheduler.mem_fraction"}}};
constexpr std::array<std::string_view, 2> kBothPools = {"prefill", "decode"};
constexpr std::string_view kLocalPrefill = "local_prefill", kSplit = "split";

std::string pool_key(std::string_view pool, const AxisKey& axis) { return fmt::format("{}.{}", pool, axis.key); }

void add_pool_keys(Keys& keys, std::vector<std::string>& storage) {
  for (const std::string_view pool : kBothPools) {
    for (const AxisKey& axis : kPoolAxes) storage.push_back(pool_key(pool, axis));
    keys.push_back(pool);
  }
  keys.insert(keys.end(), storage.begin(), storage.end());
  keys.insert(keys.end(), {kLocalPrefill, kSplit});
}

// Nested maps are another notation for keys with a dot.
void read_pool_axes(const Section& section, std::string_view pool, SearchSpec& search) {
  const auto map = section.find(pool);
  if (map) {
    Keys keys;
    for (const AxisKey& axis : kPoolAxes) keys.push_back(axis.key);
    static_cast<void>(Section(*map, keys));
  }
  for (const AxisKey& axis : kPoolAxes) {
    const std::string key = pool_key(pool, axis);
    const auto flat = section.find(key), nested = map && map->is_map() ? map->find(axis.key) : std::nullopt;
    if (flat && nested) nested->fail(fmt::format("'{}' is stated twice", key));
    if (!flat && !nested) continue;
    const Node values = flat ? *flat : *nested;
    if (!search.pool_key) search.pool_key = values.where();
    search.axes.push_back({fmt::format("deployment.pools.{}.{}", pool, axis.path), read_list(values)});
  }
}

// Reads whole numbers, with 0 for "max". Each is kept once, because a deployment listed twice would tie with itself.
std::vector<std::int32_t> counts(const Section& section, std::string_view key) {
  std::vector<std::int32_t> out;
  const auto node = section.find(key);
  if (!node) return out;
  std::set<std::int32_t> seen;
  for (const Node& item : read_list(*node)) {
    const bool is_max = item.is_scalar() && item.as_string() == "max";
    out.push_back(is_max ? 0 : static_cast<std::int32_t>(item.as_integer(1, kMaxReplicas)));
    if (!seen.insert(out.back()).second) item.fail(fmt::format("{} is listed twice", item.as_string()));
  }
  return out;
}

// The name of the key implies "per second", so a bare number is accepted.
std::optional<double> rate_of(const Section& section, std::string_view key) {
  const auto node = section.find(key);
  if (!node) return {};
  return configs::parse_number(node->as_string()) ? node->as_number(0, 1e12) : node->as_rate(0, 1e12).value;
}

}  // namespace

load::ClientLimits read_limits(const Node& node) {
  const Section section(node, Keys{"timeout", "cancel_on_timeout", "retries"});
  load::ClientLimits limits;
  if (const auto timeout = section.find("timeout")) limits.timeout = read_positive_time(*timeout);
  limits.cancel_on_timeout = section.flag("cancel_on_timeout").value_or(false);
  limits.retries = static_cast<std::int32_t>(section.whole("retries", 0, 1000).value_or(0));
  return limits;
}

sched::Slo read_slo(const Node& node) {
  std::vector<std::string> storage;
  const Section section(node, slo_keys(node, storage));
  sched::Slo slo;
  for (const auto& entry : node.items()) {
    auto bound = bound_named(entry.key);
    if (!bound) continue;
    bound->limit = read_positive_time(entry.value).count();
    slo.bounds.push_back(*bound);
  }
  slo.min_output_tokens_per_s = rate_of(section, "min_output_tokens_per_s");
  slo.min_requests_per_s = rate_of(section, "min_requests_per_s");
  if (const auto rate = section.find("max_timeout_rate")) slo.max_timeout_rate = rate->as_number(0, 1);
  if (const auto rate = section.find("min_goodput")) slo.min_goodput = rate->as_rate(0, 1e12).value;
  return slo;
}

namespace {

void read_pool_search(const Section& section, SearchSpec& search) {
  for (const std::string_view pool : kBothPools) read_pool_axes(section, pool, search);
  if (const auto local = section.find(kLocalPrefill)) {
    if (!search.pool_key) search.pool_key = local->where();
    search.axes.push_back({"deployment.local_prefill", read_list(*local)});
  }
  const auto split = section.find(kSplit);
  if (!split) return;
  constexpr std::array<std::string_view, 1> kFound = {"auto"};
  static_cast<void>(split->as_one_of(kFound));
  if (!search.pool_key) search.pool_key = split->where();
  search.finds_split = true;
  search.totals = counts(section, "replicas");
  std::erase_if(search.axes, [](const SearchAxis& axis) { return axis.path == "deployment.replicas"; });
  if (const auto replicas = section.find("replicas")) {
    for (const Node& total : read_list(*replicas)) static_cast<void>(total.as_integer(2, kMaxReplicas));
  }
  for (const SearchAxis& axis : search.axes) {
    if (axis.path.starts_with("deployment.pools.") && axis.path.ends_with(".replicas"))
      split->fail("split: auto finds the replicas of each pool; state their total as 'replicas', or leave 'split' out");
  }
}

}  // namespace

SearchSpec read_search(const Node& node) {
  Keys keys{"replicas_per_instance", "instance_count", "max_usd_per_hour", "max_gpus", "objective", "confidence"};
  for (const AxisKey& axis : kAxes) keys.push_back(axis.key);
  std::vector<std::string> storage;
  add_pool_keys(keys, storage);
  const Section section(node, keys);
  SearchSpec search;
  for (const AxisKey& axis : kAxes) {
    if (const auto values = section.find(axis.key)) search.axes.push_back({std::string(axis.path), read_list(*values)});
  }
  read_pool_search(section, search);
  search.replicas_per_instance = counts(section, "replicas_per_instance");
  search.instance_counts = counts(section, "instance_count");
  if (section.has("replicas") && (section.has("replicas_per_instance") || section.has("instance_count"))) {
    throw InputError(section.where("replicas"),
                     "replicas excludes replicas_per_instance and instance_count, whose product it is");
  }
  if (const auto usd = section.find("max_usd_per_hour")) search.max_usd_per_hour = read_positive(*usd, 1e9);
  search.max_gpus = section.whole("max_gpus", 1);
  constexpr std::array<std::string_view, 6> kObjectives = {"cost",    "capacity",   "gpus",
                                                           "latency", "throughput", "cost_per_token"};
  if (const auto objective = section.find("objective")) {
    search.objective = static_cast<Objective>(objective->as_one_of(kObjectives));
  }
  if (const auto confidence = section.find("confidence")) search.confidence = confidence->as_number(0.5, 0.9999);
  return search;
}

}  // namespace plimsoll::study

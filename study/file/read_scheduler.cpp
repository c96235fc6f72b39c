// SPDX-License-Identifier: Apache-2.0
#include "study/file/read_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "configs/quantity.h"
#include "sched/policy.h"
#include "sched/policy_table.h"
#include "study/file/not_modelled.h"
#include "study/file/scheduler_names.h"

namespace plimsoll::study {
namespace {

using configs::Node;
using sched::PolicyConfig;
using sched::PolicyKind;
using sched::PolicyVariant;

template <std::size_t N>
using Names = std::array<std::string_view, N>;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Products write their names in capitals (GUARANTEED_NO_EVICT).
template <class Enum, std::size_t N>
Enum choice_of(const Node& node, const Names<N>& names) {
  const std::string text = lower(node.as_string());
  const auto* const found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<Enum>(found - names.begin());
  return static_cast<Enum>(node.as_one_of(names));
}

Nanos delay_of(const Node& node, double bare_unit) {
  const auto bare = configs::parse_number(node.as_string());
  const double seconds = bare ? *bare * bare_unit : node.as_seconds().count();
  if (!(seconds >= 0 && seconds <= 1e6)) {
    throw InputError(node.where(), fmt::format("found '{}', allowed: a delay from 0 s to 1e6 s", node.as_string()));
  }
  return static_cast<Nanos>(seconds * 1e9 + 0.5);
}

double swap_bytes(const Node& node, bool bare_is_gibibytes) {
  const auto bare = configs::parse_number(node.as_string());
  if (bare_is_gibibytes && bare && *bare >= 0 && *bare <= 1e6) return *bare * 1073741824.0;
  return node.as_bytes().value;
}

std::int32_t tokens_of(const Node& node) { return static_cast<std::int32_t>(node.as_integer(1, kMaxTokens)); }

// All product versions that policies distinguish are 0.x.
std::int32_t version_of(const Node& node, PolicyKind policy) {
  const std::string text = node.as_string();
  const sched::VersionRange known = sched::versions_of(policy);
  for (std::int32_t minor = known.first; minor <= known.last; ++minor)
    if (text == fmt::format("0.{}", minor)) return minor;
  throw InputError(node.where(),
                   fmt::format("found '{}', allowed: {} versions \"0.{}\" to \"0.{}\", in quotation marks", text,
                               known.product, known.first, known.last));
}

struct Setter {
  std::string_view key;
  void (*set)(PolicyConfig&, const Node&);
};
using C = PolicyConfig;

// `policy` and `variant` are read before these keys.
constexpr Setter kSetters[] = {
    {"max_running", [](C& c, const Node& n) { c.max_running = n.as_integer(1, kMaxCount); }},
    {"step_token_budget", [](C& c, const Node& n) { c.step_token_budget = n.as_integer(1, kMaxCount); }},
    {"prefill_token_budget", [](C& c, const Node& n) { c.prefill_token_budget = n.as_integer(1, kMaxCount); }},
    {"forward_token_budget", [](C& c, const Node& n) { c.forward_token_budget = n.as_integer(1, kMaxCount); }},
    {"kv_token_budget", [](C& c, const Node& n) { c.kv_token_budget = n.as_integer(1, kMaxCount); }},
    {"kv_blocks", [](C& c, const Node& n) { c.kv_blocks = n.as_integer(1, kMaxCount); }},
    {"block_size", [](C& c, const Node& n) { c.block_size = static_cast<sched::Tok>(n.as_integer(1, 65536)); }},
    {"mem_fraction", [](C& c, const Node& n) { c.mem_fraction = read_positive(n, 1); }},
    {"watermark", [](C& c, const Node& n) { c.watermark = n.as_number(0, 1); }},
    {"swap_space", [](C& c, const Node& n) { c.swap_space_bytes = swap_bytes(n, false); }},
    {"reserve",
     [](C& c, const Node& n) {
       c.reserve = choice_of<sched::Reserve>(n, Names<4>{"max_len", "pow2", "request_cap", "oracle"});
     }},
    {"batch_size", [](C& c, const Node& n) { c.batch_size = n.as_integer(1, kMaxCount); }},
    {"max_batch_delay", [](C& c, const Node& n) { c.max_batch_delay = delay_of(n, 1e-3); }},
    {"delay_origin",
     [](C& c, const Node& n) {
       c.delay_origin = choice_of<sched::DelayOrigin>(n, Names<2>{"worker_free", "oldest_arrival"});
     }},
    {"delay_factor", [](C& c, const Node& n) { c.delay_factor = n.as_number(0, 1e6); }},
    {"served_ratio", [](C& c, const Node& n) { c.served_ratio = n.as_number(0, 1e6); }},
    {"force_after", [](C& c, const Node& n) { c.force_after = n.as_integer(0, kMaxCount); }},
    {"chunked", [](C& c, const Node& n) { c.chunked = read_switch(n); }},
    {"long_prefill_threshold", [](C& c, const Node& n) { c.long_prefill_threshold = n.as_integer(0, kMaxCount); }},
    {"reserve_full_sequence", [](C& c, const Node& n) { c.reserve_full_sequence = read_switch(n); }},
    {"async_scheduling",
     [](C& c, const Node& n) {
       c.async_scheduling = read_switch(n);
       if (!sched::policy_info(c.policy).can_decide_ahead && *c.async_scheduling)
         n.fail(fmt::format("only these policies decide ahead: {}",
                            sched::policies_that([](const sched::PolicyInfo& p) { return p.can_decide_ahead; })));
     }},
    {"scheduling",
     [](C& c, const Node& n) {
       c.order = choice_of<sched::Order>(n, Names<2>{"fcfs", "priority"});
       if (!sched::policy_info(c.policy).can_order_by_priority && c.order == sched::Order::priority)
         n.fail(fmt::format("only these policies serve by priority: {}",
                            sched::policies_that([](const sched::PolicyInfo& p) { return p.can_order_by_priority; })));
     }},
    {"version", [](C& c, const Node& n) { c.version = version_of(n, c.policy); }},
    {"preemption",
     [](C& c, const Node& n) {
       c.preemption = choice_of<sched::Preemption>(n, Names<2>{"recompute", "swap"});
     }},
    {"capacity_policy",
     [](C& c, const Node& n) {
       c.capacity_policy =
           choice_of<sched::CapacityPolicy>(n, Names<3>{"guaranteed_no_evict", "max_utilization", "static_batch"});
     }},
    {"batch_wait_timeout_iters", [](C& c, const Node& n) { c.batch_wait_timeout_iters = n.as_integer(0, kMaxCount); }},
    {"batch_wait_max_tokens_ratio", [](C& c, const Node& n) { c.batch_wait_max_tokens_ratio = n.as_number(0, 1); }},
    {"conservativeness", [](C& c, const Node& n) { c.conservativeness = n.as_number(0, 100); }},
    {"scheduler_recv_interval",
     [](C& c, const Node& n) {
       constexpr std::int64_t kMost = 1'000'000;
       c.scheduler_recv_interval = static_cast<std::int32_t>(n.as_integer(1, kMost));
     }},
    {"prefix_caching", [](C& c, const Node& n) { c.prefix_caching = read_switch(n); }},
    {"slot_prompt_similarity", [](C& c, const Node& n) { c.slot_prompt_similarity = n.as_number(0, 1); }},
    {"reserved_decode_tokens", [](C& c, const Node& n) { c.reserved_decode_tokens = n.as_integer(0, kMaxTokens); }},
    {"queue_limit", [](C& c, const Node& n) { c.queue_limit = n.as_integer(1, kMaxCount); }},
    {"max_concurrent", [](C& c, const Node& n) { c.max_concurrent = n.as_integer(1, kMaxCount); }},
    {"max_input", [](C& c, const Node& n) { c.max_input = tokens_of(n); }},
    {"max_total", [](C& c, const Node& n) { c.max_total = tokens_of(n); }},
    {"batch_size_bug", [](C& c, const Node& n) { c.tgi_batch_size_bug = read_switch(n); }},
};

PolicyVariant read_variant(PolicyKind policy, const Node& node) {
  std::vector<std::string_view> allowed;
  for (const sched::VariantName& v : sched::policy_info(policy).variants) {
    if (v.name == node.as_string()) return v.variant;
    allowed.push_back(v.name);
  }
  if (allowed.empty() && node.as_string() == "default") return PolicyVariant::standard;
  throw InputError(node.where(),
                   fmt::format("found variant '{}', allowed for policy {}: {}", node.as_string(), sched::name(policy),
                               allowed.empty() ? "default" : fmt::format("{}", fmt::join(allowed, ", "))));
}

/// Reads one map of settings into SchedulerSettings.
class MapReader {
 public:
  MapReader(const Node& map, SchedulerSettings& out, bool memory_only)
      : map_(map), out_(out), memory_only_(memory_only) {}

  void read() {
    for (const auto& entry : map_.items()) {
      const auto alias = scheduler_alias(entry.key, sched::runs_on(out_.config.policy, sched::Server::sglang));
      if (!alias) refuse(entry);
      if (memory_only_ && alias->ours != "block_size" && alias->ours != "mem_fraction") continue;
      if (!alias->ours.empty()) claim(alias->ours, entry.key, entry.key_where);
      apply(entry.key, *alias, entry.value);
    }
    share_budget();
  }

 private:
  void claim(std::string_view ours, const std::string& spelling, const Where& where) {
    const auto [place, is_new] = seen_.emplace(ours, spelling);
    if (is_new) return;
    throw InputError(where, fmt::format("'{}' and '{}' both set {}; state one", place->second, spelling, ours));
  }

  [[noreturn]] static void refuse(const configs::Item& entry) {
    refuse_not_modelled(entry.key, entry.value, entry.key_where);
    const std::string& key = entry.key;
    const std::vector<std::string_view> all = scheduler_spellings();
    const std::string_view near = configs::nearest(key, all);
    throw InputError(entry.key_where,
                     fmt::format("unknown key 'scheduler.{}'; {}", key,
                                 near.empty() ? fmt::format("allowed: {}, or a product's name for one of them",
                                                            fmt::join(scheduler_keys(), ", "))
                                              : fmt::format("nearest known key: '{}'", near)));
  }

  // Two names for the same budget: TGI limits prefills, the others whole steps. If both are stated, each policy uses
  // its own.
  void share_budget() {
    PolicyConfig& config = out_.config;
    const sched::BudgetKey key = sched::policy_info(config.policy).budget;
    if (key == sched::BudgetKey::smaller) return;
    const bool by_prefill = key == sched::BudgetKey::prefill;
    const std::string_view own = by_prefill ? "prefill_token_budget" : "step_token_budget";
    const std::string_view other = by_prefill ? "step_token_budget" : "prefill_token_budget";
    if (!seen_.contains(other) || seen_.contains(own)) return;
    if (by_prefill) {
      config.prefill_token_budget = config.step_token_budget;
    } else {
      config.step_token_budget = config.prefill_token_budget;
    }
  }

  void apply(const std::string& key, const SchedulerAlias& alias, const Node& value) {
    PolicyConfig& config = out_.config;
    switch (alias.form) {
      case AliasForm::gibibytes: config.swap_space_bytes = swap_bytes(value, key != "swap_space"); return;
      case AliasForm::microseconds: config.max_batch_delay = delay_of(value, 1e-6); return;
      case AliasForm::triton_delay:
        config.max_batch_delay = delay_of(value, 1e-6);
        if (!map_.has("delay_origin")) config.delay_origin = sched::DelayOrigin::oldest_arrival;
        return;
      case AliasForm::token_chunk: apply_chunk(value); return;
      case AliasForm::negated:
        (alias.ours == "prefix_caching" ? config.prefix_caching : config.async_scheduling) = !read_switch(value);
        return;
      case AliasForm::null_block: config.kv_blocks = value.as_integer(2, kMaxCount) - 1; return;
      case AliasForm::chunking_policy:
        config.chunked = value.as_one_of(Names<4>{"none", "null", "FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"}) >= 2;
        return;
      case AliasForm::first_come: apply_order(key, value); return;
      case AliasForm::engine_kind:
        static_cast<void>(value.as_one_of(Names<2>{"MPI", "Python"}));
        out_.notes.push_back(
            fmt::format("'{}: {}' says how DJL starts its workers; it has no effect here", key, value.as_string()));
        return;
      case AliasForm::degree: (alias.ours == "tp" ? out_.tp : out_.pp) = degree_of(value); return;
      case AliasForm::lmi_rolling:
      case AliasForm::lmi_paged: return;  // read together with the policy
      case AliasForm::same:
      case AliasForm::milliseconds: apply_own(alias.ours, value); return;
    }
  }

  void apply_own(std::string_view ours, const Node& value) {
    if (ours == "policy" || ours == "variant") return;
    if (ours == "free_memory_fraction") {
      out_.free_memory_fraction = read_positive(value, 1);
      return;
    }
    const auto found =
        std::find_if(std::begin(kSetters), std::end(kSetters), [&](const Setter& s) { return s.key == ours; });
    PLIMSOLL_CHECK(found != std::end(kSetters), "every scheduler key has a setter");
    found->set(out_.config, value);
  }

  void apply_chunk(const Node& value) {
    const std::int64_t chunk = value.as_integer(-1, kMaxCount);
    out_.config.chunked = chunk > 0;
    if (chunk > 0) out_.config.step_token_budget = chunk;
  }

  // Reads SGLang's --schedule-policy.
  void apply_order(const std::string& key, const Node& value) {
    if (value.is_scalar() && lower(value.as_string()) == "priority") value.fail(text_of(not_modelled("priorities")));
    static_cast<void>(value.as_one_of(Names<1>{"fcfs"}));
    out_.notes.push_back(fmt::format("'{}: fcfs' is the order of every policy here; it has no effect", key));
  }

  static SchedulerSettings::Degree degree_of(const Node& value) {
    if (value.as_string() == "max") return {-1, value.where()};
    return {static_cast<std::int32_t>(value.as_integer(1, 4096)), value.where()};
  }

  const Node& map_;
  SchedulerSettings& out_;
  bool memory_only_;
  std::map<std::string_view, std::string> seen_;
};

struct Chosen {
  std::optional<PolicyKind> policy;
  std::optional<PolicyVariant> variant;
};

// Reads the policy and variant that a map states, under our names or LMI's.
Chosen chosen_policy(const Node* map, PolicyKind otherwise) {
  Chosen chosen;
  if (map == nullptr) return chosen;
  std::optional<Node> variant, paged;
  for (const auto& entry : map->items()) {
    const auto alias = scheduler_alias(entry.key, false);
    if (!alias) continue;
    if (alias->form == AliasForm::lmi_rolling)
      chosen.policy = sched::rolling_batch_policy(entry.value.as_one_of(sched::rolling_batch_names()));
    if (alias->form == AliasForm::lmi_paged) paged = entry.value;
    if (entry.key == "policy") chosen.policy = static_cast<PolicyKind>(entry.value.as_one_of(sched::policy_names()));
    if (entry.key == "variant") variant = entry.value;
  }
  const PolicyKind policy = chosen.policy.value_or(otherwise);
  if (variant) chosen.variant = read_variant(policy, *variant);
  if (paged && sched::has_variant(policy, PolicyVariant::contiguous)) {
    chosen.variant = read_switch(*paged) ? PolicyVariant::standard : PolicyVariant::contiguous;
  }
  return chosen;
}

std::string start_problem(const PolicyConfig& config) {
  try {
    static_cast<void>(sched::make_policy(config));
    return {};
  } catch (const InputError& error) {  // a problem of this point: other points of a sweep may be possible
    return error.text();
  }
}

void give_way(SchedulerSettings& settings, const PolicyConfig& stated) {
  PolicyConfig& config = settings.config;
  if (start_problem(config).empty()) return;
  // The profile's limits contradict the study's own, so only the study's are kept.
  config.max_input = stated.max_input;
  config.max_total = stated.max_total;
  config.prefill_token_budget = stated.prefill_token_budget;
  config.kv_token_budget = stated.kv_token_budget;
  settings.problem = start_problem(config);
}

// Sets the defaults of settings that neither the study nor an engine profile states.
void set_common_defaults(PolicyConfig& config) {
  config.prefix_caching = config.prefix_caching.value_or(false);
  config.reserve_full_sequence = config.whole_sequence_must_fit();
  if (!config.served_ratio) config.served_ratio = sched::policy_info(config.policy).served_ratio;
}

}  // namespace

SchedulerSettings read_scheduler(const Node* study, std::span<const Node> engine, std::string_view default_policy) {
  PolicyKind engine_policy = sched::policy_from_name(default_policy).value_or(PolicyConfig{}.policy);
  std::optional<PolicyVariant> engine_variant;
  for (const Node& map : engine) {
    const Chosen chosen = chosen_policy(&map, engine_policy);
    engine_policy = chosen.policy.value_or(engine_policy);
    if (chosen.variant) engine_variant = chosen.variant;
  }
  const Chosen chosen = chosen_policy(study, engine_policy);
  SchedulerSettings merged, stated;
  merged.config.policy = stated.config.policy = chosen.policy.value_or(engine_policy);
  const bool same_policy = merged.config.policy == engine_policy;
  if (same_policy && engine_variant) merged.config.variant = *engine_variant;
  if (chosen.variant) merged.config.variant = stated.config.variant = *chosen.variant;
  for (const Node& map : engine) MapReader(map, merged, !same_policy).read();
  // Notes on the engine profile's own settings do not concern the user.
  merged.notes.clear();
  if (study != nullptr) {
    // The map is read twice: merged with the engine's settings, and alone, to know which settings the study itself
    // states.
    MapReader(*study, merged, false).read();
    MapReader(*study, stated, false).read();
  }
  sched::derive_settings(merged.config);
  give_way(merged, stated.config);
  set_common_defaults(merged.config);
  return merged;
}

}  // namespace plimsoll::study

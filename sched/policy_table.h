// SPDX-License-Identifier: Apache-2.0
// The table of policies: each policy's name, behaviour, product defaults, versions and servers. Code outside sched/
// asks this table and never tests a PolicyKind. Adding a policy touches only its own file and this table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <string>
#include "sched/types.h"

namespace plimsoll::sched {

struct PolicyConfig;
class Policy;

/// The policies. The table has their names, in this order.
enum class PolicyKind : std::uint8_t {
  none,
  static_batch,
  dynamic,
  rolling,
  orca,
  tgi,
  vllm_v0,
  vllm_v1,
  sarathi,
  trtllm,
  sglang,
  llama_cpp
};
enum class PolicyVariant : std::uint8_t {
  standard,  // for every policy
  vllm_01,
  vllm_chunked,  // vllm_v0: version 0.1, with chunked prefill
  contiguous,    // rolling: contiguous slots (standard is paged)
  tgi_v3,        // tgi: version 3 (standard is version 1)
  unified        // llama_cpp: one pool for all slots (standard: each slot has its share)
};
struct VariantName {
  std::string_view name = {};  // as written in studies
  PolicyVariant variant = PolicyVariant::standard;
};

/// How a policy behaves under given settings.
struct Traits {
  int max_inflight_steps = 1;
  bool returns_at_batch_end = false;  // all rows return together when the last one finishes: no time between tokens
  bool fits_whole_prompts =
      false;                // prompts are not cut: each runs in one step together with the decodes, within step_tokens
  bool contiguous = false;  // reservations are address ranges: gaps between them cannot be used
  bool decides_ahead = false;   // a step is decided when the previous one starts, not when it has ended
  bool block_by_block = false;  // KV operations are applied in the given order; prompts can be shared once allocated
  bool partial_first = false;   // freed blocks whose content is not complete are reused before all others
  bool numbered_slots = false;  // max_running slots divide the pool or the step, so idle slots count too
  bool keeps_prompts = false;   // with prefix caching: a prompt stays in the slot of its request
};

/// The limits of a batch, with the product's defaults for missing settings. kForever: no such limit.
struct Limits {
  std::int64_t max_running = kForever;     // sequences in a batch
  std::int64_t step_tokens = kForever;     // tokens of a step that contains prompts, decodes included
  std::int64_t prefill_tokens = kForever;  // prompt tokens of a step
  std::int64_t chunk_tokens = kForever;    // prompt tokens of a step in which a prompt may be cut (sglang)
  std::int64_t forward_tokens = kForever;  // tokens of one forward; a step has several (llama_cpp)
  // The forward for which the product reserves activation memory at start-up.
  std::int64_t reserved_sequences = 1, reserved_tokens = 1;
};

/// The setting that limits the tokens of a step. Products name this limit in different ways.
enum class BudgetKey : std::uint8_t {
  step,     // step_token_budget
  prefill,  // prefill_token_budget
  smaller   // the smaller of the two
};

/// Servers for which `deploy` writes settings. A policy's first server is the product whose scheduler it reproduces.
enum class Server : std::uint8_t { lmi, tgi, vllm_v0, vllm, trtllm, sglang, llama_cpp };

/// How a product works with separate pools for prefill and decode (docs/pools.md).
struct HandOver {
  bool supported = false;
  bool pushes = false;             // the decode side takes its blocks first, then the prefill begins
  bool prefill_emits = false;      // the first output token comes from the prefill side
  bool decode_prefills = true;     // the decode side can compute prompts itself
  bool needs_multiple_tp = false;  // the decode side's TP degree is a multiple of the prefill side's
};

/// How LMI (DJL Serving) selects the policy.
struct LmiSettings {
  std::string_view rolling_batch = "disable";  // option.rolling_batch
  bool starts_by_mpi = false;                  // one process per GPU; otherwise a single Python process
};

/// A row of the table. Its views and spans are valid for the life of the program.
struct PolicyInfo {
  std::string_view name = {};                               // as studies write it
  std::string_view description = {};                        // for `list policies`
  std::span<const VariantName> variants = {};               // empty: only standard, called "default"
  PolicyVariant chunked_variant = PolicyVariant::standard;  // selected by `chunked: true` instead of standard
  BudgetKey budget = BudgetKey::step;
  bool can_decide_ahead = false, can_order_by_priority = false;  // whether the settings may ask for it
  bool counts_kv_budget = false;  // enforces kv_token_budget itself; for other policies it is the size of the pool
  Tok block_tokens = 16;          // the product's default
  Blk unusable_blocks = 0;        // blocks of the product's KV pool beyond kv_blocks: vLLM V1 never uses block 0
  std::optional<double> served_ratio = {};  // the product's default, if the policy has this setting
  std::span<const Server> servers = {};     // empty: no product runs it
  LmiSettings lmi = {};
  HandOver hand_over = {};
};

/// Returns the policy's row of the table.
[[nodiscard]] const PolicyInfo& policy_info(PolicyKind kind);
[[nodiscard]] inline std::string_view name(PolicyKind kind) { return policy_info(kind).name; }
/// Returns the policy with this name; nullopt if there is none.
[[nodiscard]] std::optional<PolicyKind> policy_from_name(std::string_view text);
/// All policy names, in the order of PolicyKind, which is historical.
[[nodiscard]] std::span<const std::string_view> policy_names();
[[nodiscard]] bool has_variant(PolicyKind kind, PolicyVariant variant);
/// Returns whether `server` can run the policy.
[[nodiscard]] bool runs_on(PolicyKind kind, Server server);
/// The values of LMI's option.rolling_batch, and the policy selected by the value at `index`.
[[nodiscard]] std::span<const std::string_view> rolling_batch_names();
[[nodiscard]] PolicyKind rolling_batch_policy(std::size_t index);

/// Returns the variant in effect: `chunked` selects one if the settings state none.
[[nodiscard]] PolicyVariant variant_of(const PolicyConfig& config);
/// Returns how the policy behaves under these settings. No other function compares kinds.
[[nodiscard]] Traits traits_of(const PolicyConfig& config);
/// Returns the limits in effect. `longest`: tokens of the longest sequence, if known; 0: max_len() of the settings.
[[nodiscard]] Limits resolve_limits(const PolicyConfig& config, std::int64_t longest = 0);
/// Returns whether vLLM 0.<version> reuses freed blocks without complete content before all others.
[[nodiscard]] bool reuses_partial_blocks_first(std::int32_t version);
/// Returns whether a request stays a row of the step that scheduled and then preempted it: vLLM 0.11 with priorities.
[[nodiscard]] bool loses_preempted_rows(const PolicyConfig& config);
/// Returns the number of tokens per KV block.
[[nodiscard]] Tok block_tokens(const PolicyConfig& config);
/// Fills in derived settings: the variant in effect, and the single token budget where the product has one.
void derive_settings(PolicyConfig& config);

// Factories, called by make_policy (policy.h). make_static_batch makes the policies none, static and dynamic.
[[nodiscard]] std::unique_ptr<Policy> make_static_batch(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_rolling(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_orca(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_tgi(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_vllm_v0(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_vllm_v1(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_sarathi(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_trtllm(const PolicyConfig& config);
/// Makes SGLang's scheduler; that of its decode servers for Role::decode.
[[nodiscard]] std::unique_ptr<Policy> make_sglang(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_llama_cpp(const PolicyConfig& config);

/// Versions of a product: 0.<first> to 0.<last>.
struct VersionRange {
  std::string_view product;
  std::int32_t first = 0, last = 0;
};

/// Returns the versions that settings may state for the policy.
[[nodiscard]] VersionRange versions_of(PolicyKind kind);
/// Returns the names of the policies that satisfy a condition, joined by commas, for messages.
[[nodiscard]] std::string policies_that(bool (*satisfy)(const PolicyInfo&));

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
#include "sched/policy_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model/error.h"
#include "sched/policy.h"

namespace plimsoll::sched {

namespace {

struct Row {
  PolicyKind kind;
  std::unique_ptr<Policy> (*make)(const PolicyConfig&);
  Limits (*limits)(const PolicyConfig&, std::int64_t longest);
  Traits traits;  // traits of the standard variant
  PolicyInfo info;
};

// Limits of a scheduler with a single budget for all tokens of a step.
Limits one_budget(std::int64_t max_running, std::int64_t step_tokens) {
  return {.max_running = max_running,
          .step_tokens = step_tokens,
          .prefill_tokens = step_tokens,
          .reserved_sequences = max_running,
          .reserved_tokens = step_tokens};
}

// The prompts of a whole batch go through one forward. The step budget bounds its memory, not the scheduler.
Limits whole_prompts(const PolicyConfig& config, std::int64_t max_running, std::int64_t longest) {
  constexpr std::int64_t kWholeBatch = 8192;
  const std::int64_t tokens = std::clamp<std::int64_t>(max_running * longest, 1, kWholeBatch);
  return {.max_running = max_running,
          .reserved_sequences = max_running,
          .reserved_tokens = config.step_token_budget.value_or(tokens)};
}

// max_running applies if batch_size is missing, so that a sweep over max_running works for every policy. No product has
// a default for static; 1 is DJL Serving's batch_size.
Limits batch_limits(const PolicyConfig& config, std::int64_t longest) {
  return whole_prompts(config, config.batch_size.value_or(config.max_running.value_or(1)), longest);
}

Limits rolling_limits(const PolicyConfig& config, std::int64_t) {
  constexpr std::int64_t kMaxRunning = 32;           // DJL Serving: max_rolling_batch_size
  constexpr std::int64_t kReservedPerRequest = 272;  // DJL 0.24: prefill tokens per request that memory is reserved for
  const std::int64_t running = config.max_running.value_or(kMaxRunning);
  return {.max_running = running,
          .reserved_sequences = running,
          .reserved_tokens = config.step_token_budget.value_or(running * kReservedPerRequest)};
}

Limits orca_limits(const PolicyConfig& config, std::int64_t longest) {
  constexpr std::int64_t kMaxRunning = 128;  // max_num_seqs of the Orca scheduler in sarathi-serve
  return whole_prompts(config, config.max_running.value_or(kMaxRunning), longest);
}

// No limit on sequences unless one is stated. With the defect of TGI 2.0.0 no limit holds.
Limits tgi_limits(const PolicyConfig& config, std::int64_t) {
  constexpr std::int64_t kPrefillTokens = 4096;  // MAX_BATCH_PREFILL_TOKENS; 3.x derives it, with this as fallback
  constexpr std::int64_t kReserved = 128;        // sequences; our own choice
  const std::int64_t prefill = config.prefill_token_budget.value_or(kPrefillTokens);
  return {.max_running = config.tgi_batch_size_bug ? kForever : config.max_running.value_or(kForever),
          .prefill_tokens = prefill,
          .reserved_sequences = config.max_running.value_or(kReserved),
          .reserved_tokens = prefill};
}

Limits vllm_v0_limits(const PolicyConfig& config, std::int64_t longest) {
  constexpr std::int64_t kMaxRunning = 256;     // max_num_seqs
  constexpr std::int64_t kStepTokens = 2048;    // max_num_batched_tokens is at least this and the context length
  constexpr std::int64_t kStepTokens01 = 2560;  // the same in 0.1
  constexpr std::int64_t kChunkTokens = 512;    // with chunked prefill
  std::int64_t tokens = std::max(longest, kStepTokens);
  if (variant_of(config) == PolicyVariant::vllm_chunked) tokens = kChunkTokens;
  if (variant_of(config) == PolicyVariant::vllm_01) tokens = kStepTokens01;
  return one_budget(config.max_running.value_or(kMaxRunning), config.step_token_budget.value_or(tokens));
}

Limits vllm_v1_limits(const PolicyConfig& config, std::int64_t) {
  constexpr std::int64_t kMaxRunning = 256;   // max_num_seqs
  constexpr std::int64_t kStepTokens = 2048;  // max_num_batched_tokens of the server
  return one_budget(config.max_running.value_or(kMaxRunning), config.step_token_budget.value_or(kStepTokens));
}

Limits sarathi_limits(const PolicyConfig& config, std::int64_t) {
  constexpr std::int64_t kMaxRunning = 128, kChunk = 512;
  return one_budget(config.max_running.value_or(kMaxRunning), config.step_token_budget.value_or(kChunk));
}

Limits trtllm_limits(const PolicyConfig& config, std::int64_t) {
  constexpr std::int64_t kMaxRunning = 2048;  // max_batch_size of trtllm-build 1.0
  constexpr std::int64_t kStepTokens = 8192;  // max_num_tokens
  return one_budget(config.max_running.value_or(kMaxRunning), config.step_token_budget.value_or(kStepTokens));
}

Limits sglang_limits(const PolicyConfig& config, std::int64_t) {
  constexpr std::int64_t kMaxRunning = 4096;      // the server derives it from the pool; this is the usual upper bound
  constexpr std::int64_t kReserved = 256;         // sequences; our own choice
  constexpr std::int64_t kChunkTokens = 8192;     // chunked_prefill_size
  constexpr std::int64_t kPrefillTokens = 16384;  // max_prefill_tokens
  Limits limits{.max_running = config.max_running.value_or(kMaxRunning),
                .prefill_tokens = kPrefillTokens,
                .reserved_sequences = config.max_running.value_or(kReserved)};
  const bool chunked = config.chunked.value_or(true);
  if (chunked)
    limits.chunk_tokens = config.step_token_budget.value_or(kChunkTokens);
  else
    limits.prefill_tokens = config.step_token_budget.value_or(kPrefillTokens);
  limits.reserved_tokens = chunked ? limits.chunk_tokens : limits.prefill_tokens;
  return limits;
}

// --parallel, --batch-size and --ubatch-size of llama-server. Memory is reserved for one forward.
Limits llama_cpp_limits(const PolicyConfig& config, std::int64_t) {
  constexpr std::int64_t kSlots = 4, kStepTokens = 2048, kForwardTokens = 512;
  const std::int64_t slots = config.max_running.value_or(kSlots), step = config.step_token_budget.value_or(kStepTokens);
  const std::int64_t forward = std::min(step, config.forward_token_budget.value_or(kForwardTokens));
  return {.max_running = slots,
          .step_tokens = step,
          .prefill_tokens = step,
          .forward_tokens = forward,
          .reserved_sequences = slots,
          .reserved_tokens = forward};
}

constexpr Traits kWholeBatch{.returns_at_batch_end = true, .contiguous = true};

using V = PolicyVariant;
constexpr std::array kRollingVariants = {VariantName{"paged", V::standard}, VariantName{"contiguous", V::contiguous}};
constexpr std::array kTgiVariants = {VariantName{"v1", V::standard}, VariantName{"v3", V::tgi_v3}};
constexpr std::array kLlamaCppVariants = {VariantName{"slots", V::standard}, VariantName{"unified", V::unified}};
constexpr std::array kVllmV0Variants = {VariantName{"default", V::standard}, VariantName{"0.1", V::vllm_01},
                                        VariantName{"chunked", V::vllm_chunked}};

constexpr std::array kLmiAlone = {Server::lmi};
constexpr std::array kTgiServers = {Server::tgi};
constexpr std::array kVllmV0Servers = {Server::vllm_v0, Server::lmi};
constexpr std::array kVllmServers = {Server::vllm, Server::lmi};
constexpr std::array kTrtllmServers = {Server::trtllm, Server::lmi};
constexpr std::array kSglangServers = {Server::sglang};
constexpr std::array kLlamaCppServers = {Server::llama_cpp};

// Rows in the order of PolicyKind.
constexpr std::array<Row, 12> kRows = {{
    {PolicyKind::none,
     make_static_batch,
     [](const PolicyConfig& config, std::int64_t longest) { return whole_prompts(config, 1, longest); },
     kWholeBatch,
     {.name = "none", .description = "one request at a time"}},
    {PolicyKind::static_batch,
     make_static_batch,
     batch_limits,
     kWholeBatch,
     {.name = "static", .description = "whole batches; finished rows keep their place until the batch ends"}},
    {PolicyKind::dynamic,
     make_static_batch,
     batch_limits,
     kWholeBatch,
     {.name = "dynamic",
      .description = "static batches formed within a wait window (DJL, Triton)",
      .servers = kLmiAlone}},
    {PolicyKind::rolling,
     make_rolling,
     rolling_limits,
     {},
     {.name = "rolling",
      .description =
          "LMI rolling batch: each iteration prefills new requests, then decodes one token of all (lmi-dist)",
      .variants = kRollingVariants,
      .servers = kLmiAlone,
      .lmi = {.rolling_batch = "lmi-dist", .starts_by_mpi = true}}},
    {PolicyKind::orca,
     make_orca,
     orca_limits,
     {.contiguous = true},
     {.name = "orca", .description = "iteration-level batching with slots reserved for the lifetime of a request"}},
    {PolicyKind::tgi,
     make_tgi,
     tgi_limits,
     {},
     {.name = "tgi",
      .description = "Text Generation Inference: prefill-only or decode-only steps, token budgets (variants v1, v3)",
      .variants = kTgiVariants,
      .chunked_variant = V::tgi_v3,  // PREFILL_CHUNKING is how version 3 works
      .budget = BudgetKey::prefill,
      .counts_kv_budget = true,  // rounds it in its own way
      .served_ratio = 1.2,       // WAITING_SERVED_RATIO of the router; the launcher uses 0.3 from 2.0.2 on
      .servers = kTgiServers}},
    {PolicyKind::vllm_v0,
     make_vllm_v0,
     vllm_v0_limits,
     {},
     {.name = "vllm_v0",
      .description = "vLLM 0.2 to 0.6: prefill first, paged KV, preemption (variants default, 0.1, chunked)",
      .variants = kVllmV0Variants,
      .chunked_variant = V::vllm_chunked,  // --enable-chunked-prefill selects another scheduler in V0
      .servers = kVllmV0Servers,
      .lmi = {.rolling_batch = "vllm"}}},
    {PolicyKind::vllm_v1,
     make_vllm_v1,
     vllm_v1_limits,
     {},
     {.name = "vllm_v1",
      .description = "vLLM 0.8 and later: one token budget, mixed steps",
      .can_decide_ahead = true,
      .can_order_by_priority = true,
      .unusable_blocks = 1,
      .servers = kVllmServers,
      .lmi = {.rolling_batch = "vllm"},
      .hand_over = {.supported = true, .needs_multiple_tp = true}}},
    {PolicyKind::sarathi,
     make_sarathi,
     sarathi_limits,
     {},
     {.name = "sarathi", .description = "chunked prefills in the same steps as decodes"}},
    {PolicyKind::trtllm,
     make_trtllm,
     trtllm_limits,
     {},
     {.name = "trtllm",
      .description = "TensorRT-LLM in-flight batching with a capacity scheduler",
      .servers = kTrtllmServers,
      .lmi = {.rolling_batch = "trtllm", .starts_by_mpi = true},
      .hand_over = {.supported = true, .prefill_emits = true}}},
    {PolicyKind::sglang,
     make_sglang,
     sglang_limits,
     {},
     {.name = "sglang",
      .description = "SGLang: prefill first, estimated output, radix cache",
      .budget = BudgetKey::smaller,  // --chunked-prefill-size and --max-prefill-tokens
      .block_tokens = 1,             // --page-size
      .servers = kSglangServers,
      .hand_over = {.supported = true, .pushes = true, .prefill_emits = true, .decode_prefills = false}}},
    {PolicyKind::llama_cpp,
     make_llama_cpp,
     llama_cpp_limits,
     {.numbered_slots = true, .keeps_prompts = true},
     {.name = "llama_cpp",
      .description = "llama.cpp's server: fixed slots, decodes and prompts in one batch (variants slots, unified)",
      .variants = kLlamaCppVariants,
      .block_tokens = 1,
      .servers = kLlamaCppServers}},
}};

// Policies without versions accept those of the first policy here, so that one study can compare them with it.
constexpr std::array kVersions = {
    std::pair(PolicyKind::vllm_v1, VersionRange{.product = "vLLM", .first = 11, .last = 32}),
    std::pair(PolicyKind::sglang, VersionRange{.product = "SGLang", .first = 4, .last = 5})};

// `scheduler` (DJL's seq_scheduler) is closest to lmi-dist: each iteration prefills the new requests and decodes every
// running one. `disable` leaves only the dynamic batching of the worker queue.
constexpr std::array<std::string_view, 6> kRollingBatches = {"auto", "lmi-dist", "scheduler",
                                                             "vllm", "trtllm",   "disable"};
constexpr std::array kRollingBatchPolicies = {PolicyKind::rolling, PolicyKind::rolling, PolicyKind::rolling,
                                              PolicyKind::vllm_v0, PolicyKind::trtllm,  PolicyKind::dynamic};

const Row& row_of(PolicyKind kind) {
  const Row& row = kRows[static_cast<std::size_t>(kind)];
  PLIMSOLL_CHECK(row.kind == kind, "the table is in the order of PolicyKind");
  return row;
}

}  // namespace

const PolicyInfo& policy_info(PolicyKind kind) { return row_of(kind).info; }

std::span<const std::string_view> policy_names() {
  static const std::array<std::string_view, kRows.size()> kNames = [] {
    std::array<std::string_view, kRows.size()> names;
    std::transform(kRows.begin(), kRows.end(), names.begin(), [](const Row& row) { return row.info.name; });
    return names;
  }();
  return kNames;
}

std::optional<PolicyKind> policy_from_name(std::string_view text) {
  for (const Row& row : kRows)
    if (row.info.name == text) return row.kind;
  return {};
}

VersionRange versions_of(PolicyKind kind) {
  for (const auto& [policy, versions] : kVersions)
    if (policy == kind) return versions;
  return kVersions.front().second;
}

std::string policies_that(bool (*satisfy)(const PolicyInfo&)) {
  std::string names;
  for (const Row& row : kRows) {
    if (!satisfy(row.info)) continue;
    if (!names.empty()) names += ", ";
    names += row.info.name;
  }
  return names;
}

bool has_variant(PolicyKind kind, PolicyVariant variant) {
  const std::span<const VariantName> all = policy_info(kind).variants;
  return std::any_of(all.begin(), all.end(), [&](const VariantName& v) { return v.variant == variant; });
}

bool runs_on(PolicyKind kind, Server server) {
  const std::span<const Server> servers = policy_info(kind).servers;
  return std::find(servers.begin(), servers.end(), server) != servers.end();
}

std::span<const std::string_view> rolling_batch_names() { return kRollingBatches; }

PolicyKind rolling_batch_policy(std::size_t index) { return kRollingBatchPolicies.at(index); }

PolicyVariant variant_of(const PolicyConfig& config) {
  if (config.variant != PolicyVariant::standard || !config.chunked.value_or(false)) return config.variant;
  return policy_info(config.policy).chunked_variant;
}

Traits traits_of(const PolicyConfig& config) {
  Traits traits = row_of(config.policy).traits;
  if (variant_of(config) == PolicyVariant::contiguous) traits.contiguous = true;
  if (config.policy == PolicyKind::vllm_v1) {
    traits.fits_whole_prompts = !config.chunked.value_or(true);
    traits.decides_ahead = config.async_scheduling.value_or(false);
    traits.block_by_block = true;
    traits.partial_first = reuses_partial_blocks_first(config.version);
  }
  if (config.policy == PolicyKind::trtllm) traits.fits_whole_prompts = !config.chunked.value_or(false);
  return traits;
}

Limits resolve_limits(const PolicyConfig& config, std::int64_t longest) {
  return row_of(config.policy).limits(config, longest > 0 ? longest : config.max_len());
}

bool reuses_partial_blocks_first(std::int32_t version) { return version >= 24; }

bool loses_preempted_rows(const PolicyConfig& config) {
  return config.policy == PolicyKind::vllm_v1 && config.order == Order::priority && config.version <= 11;
}

Tok block_tokens(const PolicyConfig& config) {
  return config.block_size.value_or(policy_info(config.policy).block_tokens);
}

void derive_settings(PolicyConfig& config) {
  config.variant = variant_of(config);
  if (policy_info(config.policy).budget != BudgetKey::smaller || !config.prefill_token_budget) return;
  const std::int64_t prefill = *config.prefill_token_budget;
  const std::int64_t chunk = resolve_limits(config).chunk_tokens;
  config.step_token_budget = std::min(prefill, chunk);
}

std::unique_ptr<Policy> make_policy(const PolicyConfig& config) { return row_of(config.policy).make(config); }

}  // namespace plimsoll::sched

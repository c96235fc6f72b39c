// SPDX-License-Identifier: Apache-2.0
#include "study/file/not_modelled.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "configs/text_file.h"

namespace plimsoll::study {
namespace {

using configs::Node;

const std::array<NotModelled, 10> kFeatures{{
    {"expert parallelism",
     "experts are spread over the GPUs of one replica at most, so large mixtures on many GPUs are predicted too slow, "
     "several times at large batches",
     "SGLang, DeepSeek-V3 on 9 nodes of 8 H100: 22 282 output tokens/s a node with EP 72, and 2.5 times less without "
     "balanced experts (lmsys.org, 2025-05-05)",
     "state deployment.ep within a replica, and take the prediction as a lower bound of the throughput",
     {"ep",
      "ep_size",
      "expert_parallel",
      "expert_parallelism",
      "expert_parallel_size",
      "enable_expert_parallel",
      "moe_expert_parallel_size",
      "moe_ep_size",
      "ep_degree",
      "redundant_experts",
      "num_redundant_experts",
      "ep_num_redundant_experts",
      "enable_eplb",
      "eplb",
      "eplb_config",
      "all_to_all",
      "all2all_backend",
      "moe_a2a_backend",
      "enable_deepep_moe",
      "deepep_mode",
      "enable_dbo",
      "enable_two_batch_overlap",
      "wide_ep",
      "moe_cluster_parallel_size",
      "expert_skew"}},
    {"data parallelism inside a replica",
     "every TP rank stores the whole latent cache, so DeepSeek-class models are predicted with a KV pool up to TP "
     "times too small; their throughput at large batches is too low, up to 1.9 times; the ranks' lock step is missing",
     "SGLang 0.4, DP attention (lmsys.org, 2024-12-04)",
     "for models without latent attention state deployment.replicas: each has its own scheduler",
     {"dp", "dp_size", "dp_degree", "data_parallel", "data_parallelism", "data_parallel_size",
      "data_parallel_size_local", "data_parallel_replicas", "enable_dp_attention", "dp_attention", "attention_dp",
      "enable_attention_dp", "attention_data_parallel", "attn_dp", "attention_dp_config", "enable_dp_lm_head"}},
    {"pipelining",
     "a step passes through all stages before the next one begins, so with pp stages the throughput is predicted up to "
     "pp times too low; the time of one batch and the memory are right",
     "vLLM keeps as many batches in flight as stages (v1/engine/core.py, step_with_batch_queue)",
     "",
     {"micro_batches", "microbatches", "num_micro_batches", "virtual_engines", "pp_max_micro_batch_size",
      "pp_async_batch_depth", "stage_layers", "steps_in_flight", "batch_queue"}},
    {"speculative decoding",
     "the TPOT of small batches is predicted 1.3 to 1.8 times too high; from about 256 sequences speculation gains "
     "nothing, and products that still speculate are slower than predicted",
     "EAGLE with 2 drafts, 8B on an H100: 133 to 202 tokens/s (vllm#16937); MTP of DeepSeek-V3: 1.76 times "
     "(sglang#3582); none at 256 (HabanaAI/vllm-fork#1264)",
     "divide the TPOT of small batches by the speedup (mean accepted length / relative time of a step), or measure",
     {"speculation",
      "speculative",
      "speculative_decoding",
      "spec_decode",
      "spec_decoding",
      "speculative_config",
      "speculative_model",
      "speculative_model_path",
      "num_speculative_tokens",
      "speculative_tokens",
      "speculative_algorithm",
      "speculative_algo",
      "speculative_num_steps",
      "speculative_num_draft_tokens",
      "speculative_eagle_topk",
      "speculative_draft",
      "speculative_draft_model",
      "speculative_draft_model_path",
      "speculate",
      "mtp",
      "mtp_layers",
      "mtp_nextn",
      "num_nextn_predict_layers",
      "eagle",
      "eagle3",
      "medusa",
      "draft_model",
      "draft",
      "ngram",
      "lookahead",
      "lookahead_config",
      "acceptance",
      "acceptance_rate"}},
    {"LoRA",
     "the throughput of a server with adapters is predicted too high, by 1.3 to 1.5 times, whether one adapter is used "
     "or several; its adapters' memory is missing",
     "A100, 7B: 11.45 to 7.60 requests/s (vllm#11267)",
     "",
     {"lora", "loras", "adapters", "adapter", "enable_lora", "max_loras", "max_lora_rank", "lora_modules",
      "lora_adapters", "lora_paths", "max_cpu_loras", "max_loras_per_batch", "lora_config", "lora_rank"}},
    {"a replica over several instances",
     "all-reduces are modelled over the link inside one instance; over a network of 50 GB/s per GPU they take some 9 "
     "times as long as over NVLink of 450 GB/s, so TP over nodes would be predicted much too fast",
     "link rates: ConnectX-7 400 Gb/s (DeepEP README), NVLink 4 (H100 datasheet)",
     "one replica per instance, with deployment.replicas",
     {"nodes", "nnodes", "num_nodes", "node_rank", "nodes_per_replica", "instances_per_replica", "multi_node",
      "multinode", "dist_init_addr", "distributed_executor_backend"}},
    {"priorities",
     "policies other than vllm_v1 serve requests in order, so urgent ones are predicted too slow and the others too "
     "fast; the work-weighted mean wait is the same",
     "Kleinrock's conservation law (Queueing Systems II, 1976, section 3.4)",
     "scheduler.scheduling: priority and workload.priorities with policy vllm_v1; for other policies one study per "
     "class, each with its own replicas",
     {"priority", "priority_scheduling", "enable_priority_scheduling", "priority_scheduling_preemption_threshold",
      "request_priority", "schedule_low_priority_values_first"}},
    {"a second tier of the KV cache",
     "KV that leaves the GPU is recomputed, so TTFT of returning requests is predicted too high: 2 to 22 times for one "
     "request, 3 times on average in agents' sessions",
     "Llama-3.1-8B on an H100 (vLLM blog, 2026-01-08); agents' traces (LMCache blog, 2026-05-12)",
     "scheduler.prefix_caching models the cache on the GPU",
     {"kv_tiers",
      "kv_tier",
      "kv_offload",
      "kv_offloading",
      "kv_offloading_size",
      "kv_offloading_backend",
      "kv_cache_offload",
      "offload",
      "offloading",
      "cpu_offload",
      "cpu_offload_gb",
      "host_cache_size",
      "kv_host_cache_bytes",
      "enable_lmcache",
      "lmcache",
      "hicache",
      "enable_hierarchical_cache",
      "hicache_ratio",
      "hicache_size",
      "hicache_write_policy",
      "secondary_cache"}},
    {"asynchronous scheduling",
     "host time is as in the engine's profile; if the product hides more of it, TPOT is predicted too high by at most "
     "the host's part of a step, some 10 %",
     "SGLang 0.4, scheduler overlapped with the device: 1.1 times the throughput (lmsys.org, 2024-12-04)",
     "an engine profile with host.overlap: full gives the opposite bound",
     {"async_scheduling", "enable_async_scheduling", "asynchronous_scheduling", "overlap_schedule", "overlap_scheduler",
      "disable_overlap_schedule", "enable_overlap_schedule", "disable_overlap_scheduler", "num_scheduler_steps",
      "multi_step", "multi_step_scheduling", "num_continuous_decode_steps"}},
    {"context parallelism",
     "one TP group computes a prompt, so long prompts are predicted too slow; if a model has fewer KV heads than "
     "ranks, its KV pool is predicted too small; both by at most the degree",
     "a cache that is striped over c ranks takes 1/c of each (SGLang's documentation of decode context parallelism)",
     "",
     {"cp", "cp_size", "context_parallel", "context_parallelism", "context_parallel_size", "dcp", "dcp_size",
      "decode_context_parallel_size", "pcp", "prefill_context_parallel_size", "sequence_parallel", "sp_size",
      "ring_attention", "enable_prefill_cp", "attn_cp_size"}},
}};

// Other spellings of deployment.pools, which is modelled: the message names the keys to use.
constexpr std::array<std::string_view, 27> kPools = {"pools",
                                                     "pool",
                                                     "prefill",
                                                     "decode",
                                                     "disaggregation",
                                                     "disaggregated",
                                                     "disaggregate",
                                                     "disagg",
                                                     "pd",
                                                     "pd_disaggregation",
                                                     "disaggregation_mode",
                                                     "disaggregation_transfer_backend",
                                                     "prefill_replicas",
                                                     "decode_replicas",
                                                     "prefill_pool",
                                                     "decode_pool",
                                                     "prefill_workers",
                                                     "decode_workers",
                                                     "num_prefill",
                                                     "num_decode",
                                                     "kv_transfer_config",
                                                     "kv_connector",
                                                     "kv_role",
                                                     "cache_transceiver_config",
                                                     "transfer",
                                                     "kv_transfer",
                                                     "local_prefill"};

// Converts "--enable-expert-parallel", "option.enable_lora" or "MAX_LORAS" to the spelling used in the list.
std::string plain(std::string_view key) {
  if (key.starts_with("option.")) key.remove_prefix(7);
  while (key.starts_with('-')) key.remove_prefix(1);
  std::string out(key);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == ' ' || c == '.') c = '_';
  }
  return out;
}

// Returns whether a value requests nothing, such as one rank or "off".
bool is_off(const Node& value) {
  if (value.is_null()) return true;
  if (!value.is_scalar()) return false;
  static constexpr std::array<std::string_view, 7> kOff = {"0", "1", "false", "off", "no", "none", ""};
  const std::string text = plain(value.as_string());
  return std::find(kOff.begin(), kOff.end(), text) != kOff.end();
}

}  // namespace

std::span<const NotModelled> not_modelled() { return kFeatures; }

const NotModelled* feature_of(std::string_view key) {
  const std::string name = plain(key);
  for (const NotModelled& feature : kFeatures)
    if (std::find(feature.keys.begin(), feature.keys.end(), name) != feature.keys.end()) return &feature;
  return nullptr;
}

const NotModelled& not_modelled(std::string_view name) {
  for (const NotModelled& feature : kFeatures)
    if (feature.name == name) return feature;
  PLIMSOLL_CHECK(false, "no such feature");
}

std::string text_of(const NotModelled& feature) {
  return fmt::format("{} {} not modelled; effect: {} (source: {}).{} See docs/limits.md", feature.name,
                     feature.name == "priorities" ? "are" : "is", feature.effect, feature.source,
                     feature.instead.empty() ? "" : fmt::format(" Instead: {}.", feature.instead));
}

void refuse_not_modelled(const std::string& key, const Node& value, const Where& where) {
  if (std::find(kPools.begin(), kPools.end(), plain(key)) != kPools.end())
    throw InputError(where, fmt::format("'{}': pools for prefill and decode are stated as deployment.pools, transfer "
                                        "and local_prefill (docs/pools.md)",
                                        configs::shortened(key)));
  const NotModelled* const feature = feature_of(key);
  if (feature == nullptr) return;
  const std::string off = is_off(value) ? fmt::format("; '{}: {}' is always the case here: leave it out", key,
                                                      value.is_null() ? "null" : value.as_string())
                                        : "";
  throw InputError(where, fmt::format("'{}': {}{}", configs::shortened(key), text_of(*feature), off));
}

void refuse_not_modelled(const Node& map, std::span<const std::string_view> known) {
  if (!map.is_map()) return;
  for (const configs::Item& item : map.items())
    if (std::find(known.begin(), known.end(), item.key) == known.end())
      refuse_not_modelled(item.key, item.value, item.key_where);
}

}  // namespace plimsoll::study

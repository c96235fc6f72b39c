// SPDX-License-Identifier: Apache-2.0
#include "study/file/scheduler_names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace plimsoll::study {
namespace {

struct Row {
  std::string_view spelling;  // property, environment variable or flag, as in the product's documentation
  SchedulerAlias alias;
};

using enum AliasForm;

constexpr std::array kAliases = {
    // LMI: serving.properties, and the environment variables that replace it
    Row{"option.max_rolling_batch_size", {"max_running"}},
    Row{"option.max_rolling_batch_prefill_tokens", {"step_token_budget"}},
    Row{"option.gpu_memory_utilization", {"mem_fraction"}},
    Row{"option.max_model_len", {"max_total"}},
    Row{"option.waiting_steps", {"force_after"}},
    Row{"option.tensor_parallel_degree", {"tp", degree}},
    Row{"option.pipeline_parallel_degree", {"pp", degree}},
    Row{"option.rolling_batch", {"policy", lmi_rolling}},
    Row{"option.paged_attention", {"variant", lmi_paged}},
    Row{"max_dynamic_batch_size", {"batch_size"}},
    Row{"job_queue_size", {"queue_limit"}},
    Row{"engine", {"", engine_kind}},
    // TGI: environment variables; the flags are the same words
    Row{"MAX_BATCH_SIZE", {"max_running"}},
    Row{"MAX_BATCH_PREFILL_TOKENS", {"prefill_token_budget"}},
    Row{"MAX_BATCH_TOTAL_TOKENS", {"kv_token_budget"}},
    Row{"CUDA_MEMORY_FRACTION", {"mem_fraction"}},
    Row{"TGI_WIGGLE_ROOM", {"mem_fraction"}},
    Row{"MAX_CONCURRENT_REQUESTS", {"max_concurrent"}},
    Row{"MAX_INPUT_LENGTH", {"max_input"}},
    Row{"MAX_INPUT_TOKENS", {"max_input"}},
    Row{"MAX_TOTAL_TOKENS", {"max_total"}},
    Row{"WAITING_SERVED_RATIO", {"served_ratio"}},
    Row{"MAX_WAITING_TOKENS", {"force_after"}},
    Row{"PREFILL_CHUNKING", {"chunked"}},
    Row{"SM_NUM_GPUS", {"tp", degree}},
    Row{"NUM_SHARD", {"tp", degree}},
    // vLLM
    Row{"--max-num-seqs", {"max_running"}},
    Row{"--max-num-batched-tokens", {"step_token_budget"}},
    Row{"--num-gpu-blocks-override", {"kv_blocks", null_block}},
    Row{"--gpu-memory-utilization", {"mem_fraction"}},
    Row{"--block-size", {"block_size"}},
    Row{"--max-model-len", {"max_total"}},
    Row{"--scheduler-delay-factor", {"delay_factor"}},
    Row{"--enable-chunked-prefill", {"chunked"}},
    Row{"--long-prefill-token-threshold", {"long_prefill_threshold"}},
    Row{"--preemption-mode", {"preemption"}},
    Row{"--swap-space", {"swap_space", gibibytes}},
    Row{"--enable-prefix-caching", {"prefix_caching"}},
    Row{"--tensor-parallel-size", {"tp", degree}},
    Row{"--pipeline-parallel-size", {"pp", degree}},
    Row{"--scheduling-policy", {"scheduling"}},
    Row{"--async-scheduling", {"async_scheduling"}},
    Row{"--no-async-scheduling", {"async_scheduling", negated}},
    Row{"--scheduler-reserve-full-isl", {"reserve_full_sequence"}},
    Row{"--no-scheduler-reserve-full-isl", {"reserve_full_sequence", negated}},
    // TensorRT-LLM and Triton
    Row{"max_batch_size", {"max_running"}},
    Row{"max_num_tokens", {"step_token_budget"}},
    Row{"free_gpu_memory_fraction", {"free_memory_fraction"}},
    Row{"kv_cache_free_gpu_mem_fraction", {"free_memory_fraction"}},
    Row{"tokens_per_block", {"block_size"}},
    Row{"context_chunking_policy", {"chunked", chunking_policy}},
    Row{"capacity_scheduler_policy", {"capacity_policy"}},
    Row{"batch_wait_timeout_iters", {"batch_wait_timeout_iters"}},
    Row{"batch_wait_max_tokens_ratio", {"batch_wait_max_tokens_ratio"}},
    Row{"preferred_batch_size", {"batch_size"}},
    Row{"max_queue_delay_microseconds", {"max_batch_delay", triton_delay}},
    Row{"max_queue_size", {"queue_limit"}},
    // SGLang
    Row{"--max-running-requests", {"max_running"}},
    Row{"--max-prefill-tokens", {"prefill_token_budget"}},
    Row{"--chunked-prefill-size", {"step_token_budget", token_chunk}},
    Row{"--mem-fraction-static", {"mem_fraction"}},
    Row{"--page-size", {"block_size"}},
    Row{"--context-length", {"max_total"}},
    Row{"--tp-size", {"tp", degree}},
    Row{"--schedule-policy", {"", first_come}},
    Row{"--schedule-conservativeness", {"conservativeness"}},
    Row{"--scheduler-recv-interval", {"scheduler_recv_interval"}},
    Row{"--num-reserved-decode-tokens", {"reserved_decode_tokens"}},
    Row{"--disable-radix-cache", {"prefix_caching", negated}},
    // llama.cpp
    Row{"--parallel", {"max_running"}},
    Row{"--ubatch-size", {"forward_token_budget"}},
    Row{"--ctx-size", {"kv_token_budget"}},
    Row{"--cache-prompt", {"prefix_caching"}},
    Row{"--no-cache-prompt", {"prefix_caching", negated}},
    Row{"--slot-prompt-similarity", {"slot_prompt_similarity"}},
};

bool starts_with_any_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), text.begin(), [](char p, char t) {
           return p == static_cast<char>(std::tolower(static_cast<unsigned char>(t)));
         });
}

// Converts "--max-num-seqs", "max_num_seqs", "MAX_NUM_SEQS", "option.x", "OPTION_X" and "SERVING_X" to one form.
std::string normal_form(std::string_view name) {
  if (starts_with_any_case(name, "--")) name.remove_prefix(2);
  for (const std::string_view prefix : {"option.", "option_", "serving.", "serving_"}) {
    if (starts_with_any_case(name, prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  }
  std::string out;
  for (const char c : name) out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

void set_scheduler_key(configs::Document& document, const std::string& key, const configs::Node& value) {
  const auto alias = scheduler_alias(key, false);
  const auto scheduler = document.root().find("scheduler");
  if (scheduler && scheduler->is_map() && alias) {
    if (scheduler->has(key)) {
      document.set("scheduler." + key, value);
      return;
    }
    for (const configs::Item& item : scheduler->items()) {
      const auto other = scheduler_alias(item.key, false);
      if (other && !alias->ours.empty() && other->ours == alias->ours) document.remove("scheduler." + item.key);
    }
  }
  std::string flat = key;
  std::replace(flat.begin(), flat.end(), '.', '_');
  document.set("scheduler." + flat, value);
}

const std::vector<std::string_view>& scheduler_keys() {
  static const std::vector<std::string_view> kKeys = {"policy",
                                                      "variant",
                                                      "max_running",
                                                      "step_token_budget",
                                                      "prefill_token_budget",
                                                      "forward_token_budget",
                                                      "kv_token_budget",
                                                      "kv_blocks",
                                                      "block_size",
                                                      "mem_fraction",
                                                      "watermark",
                                                      "swap_space",
                                                      "reserve",
                                                      "batch_size",
                                                      "max_batch_delay",
                                                      "delay_origin",
                                                      "delay_factor",
                                                      "served_ratio",
                                                      "force_after",
                                                      "chunked",
                                                      "long_prefill_threshold",
                                                      "reserve_full_sequence",
                                                      "async_scheduling",
                                                      "scheduling",
                                                      "version",
                                                      "preemption",
                                                      "capacity_policy",
                                                      "batch_wait_timeout_iters",
                                                      "batch_wait_max_tokens_ratio",
                                                      "conservativeness",
                                                      "scheduler_recv_interval",
                                                      "prefix_caching",
                                                      "slot_prompt_similarity",
                                                      "reserved_decode_tokens",
                                                      "queue_limit",
                                                      "max_concurrent",
                                                      "max_input",
                                                      "max_total",
                                                      "batch_size_bug"};
  return kKeys;
}

std::optional<SchedulerAlias> scheduler_alias(std::string_view name, bool sglang) {
  const auto& ours = scheduler_keys();
  const auto own = std::find(ours.begin(), ours.end(), name);
  if (own != ours.end()) return SchedulerAlias{*own, name == "max_batch_delay" ? milliseconds : same};
  const std::string normal = normal_form(name);
  if (sglang && normal == "max_total_tokens") return SchedulerAlias{"kv_token_budget"};
  static const std::vector<std::string> kNormalForms = [] {
    std::vector<std::string> forms;
    for (const Row& row : kAliases) forms.push_back(normal_form(row.spelling));
    return forms;
  }();
  const auto found = std::find(kNormalForms.begin(), kNormalForms.end(), normal);
  if (found == kNormalForms.end()) return {};
  return kAliases[static_cast<std::size_t>(found - kNormalForms.begin())].alias;
}

std::vector<std::string_view> scheduler_spellings() {
  std::vector<std::string_view> all = scheduler_keys();
  for (const Row& row : kAliases) all.push_back(row.spelling);
  return all;
}

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// The scheduler's settings as a study states them (keys of docs/study-file.md). A missing setting takes the default of
// the policy's product, given in docs/policies.md, in the table of policies and in each policy's source.
#pragma once

#include <cstdint>
#include <optional>

#include "model/units.h"
#include "sched/policy_table.h"
#include "sched/types.h"

namespace plimsoll::sched {

/// How much Orca reserves for a request (sched/orca.h).
enum class Reserve : std::uint8_t { max_len, pow2, request_cap, oracle };
/// What happens to the blocks of a preempted request.
enum class Preemption : std::uint8_t { recompute, swap };
enum class CapacityPolicy : std::uint8_t { guaranteed_no_evict, max_utilization, static_batch };
/// The order in which waiting requests are admitted.
enum class Order : std::uint8_t { fcfs, priority };
/// The moment from which the delay of dynamic batching counts.
enum class DelayOrigin : std::uint8_t { worker_free, oldest_arrival };

/// What a replica computes: everything, or with pools for prefill and decode one of the two (docs/pools.md).
enum class Role : std::uint8_t { whole, prefill, decode };

struct PolicyConfig {
  PolicyKind policy = PolicyKind::vllm_v1;
  PolicyVariant variant = PolicyVariant::standard;
  Role role = Role::whole;
  // Batch limits.
  std::optional<std::int64_t> max_running;           // sequences that run at once
  std::optional<std::int64_t> step_token_budget;     // tokens in one step
  std::optional<std::int64_t> prefill_token_budget;  // tgi: MAX_BATCH_PREFILL_TOKENS
  std::optional<std::int64_t> forward_token_budget;  // llama_cpp: tokens in one forward of a step
  std::optional<std::int64_t> kv_token_budget;       // tgi: MAX_BATCH_TOTAL_TOKENS; others: the pool, in tokens
  // Memory.
  std::optional<Blk> kv_blocks;  // usable blocks; overrides the derived pool
  std::optional<Tok> block_size;
  std::optional<double> mem_fraction;
  std::optional<double> watermark;         // fraction of the blocks kept free at admission
  std::optional<double> swap_space_bytes;  // host memory for swapping, per GPU
  std::int64_t swap_blocks = 0;            // derived from swap_space by the caller (study/ or a test)
  std::optional<Reserve> reserve;
  // Static and dynamic batching.
  std::optional<std::int64_t> batch_size;
  std::optional<Nanos> max_batch_delay;
  DelayOrigin delay_origin = DelayOrigin::worker_free;
  // Waiting.
  std::int32_t scheduler_recv_interval = 1;  // sglang: decode steps from one look for new requests to the next
  std::optional<double> delay_factor;        // vllm_v0
  std::optional<double> served_ratio;        // tgi
  std::optional<std::int64_t> force_after;   // tgi: MAX_WAITING_TOKENS; rolling: waiting_steps
  // Chunking and admission.
  std::optional<bool> chunked;
  std::optional<std::int64_t> long_prefill_threshold;
  std::optional<bool> reserve_full_sequence;  // vllm_v1
  std::optional<bool> async_scheduling;       // vllm_v1: a step is decided while the previous one runs
  std::int32_t version = 16;                  // vllm_v1, sglang: version of the product, 0.<version>
  Order order = Order::fcfs;                  // vllm_v1
  std::optional<Preemption> preemption;
  CapacityPolicy capacity_policy = CapacityPolicy::guaranteed_no_evict;
  // trtllm: while requests decode, prompts wait at most this many steps, or until they fill this share of the step
  // budget
  std::optional<std::int64_t> batch_wait_timeout_iters;
  std::optional<double> batch_wait_max_tokens_ratio;
  std::optional<double> conservativeness;  // sglang
  std::optional<bool> prefix_caching;
  // sglang, role decode: tokens kept free for each request that runs or is on its way (num_reserved_decode_tokens)
  std::optional<std::int64_t> reserved_decode_tokens;
  // llama_cpp: a slot is chosen by its prompt if it shares more than this fraction of the new prompt; 0: never
  std::optional<double> slot_prompt_similarity;
  // Front door.
  std::optional<std::int64_t> queue_limit;
  std::optional<std::int64_t> max_concurrent;
  std::optional<Tok> max_input, max_total;
  /// Longest sequence that the model supports; max_total overrides it. Set by the caller; 0: not known.
  Tok model_max_len = 0;
  /// Reproduces the defect of TGI 2.0.0, which overshoots max_batch_size when the batch is full.
  bool tgi_batch_size_bug = false;

  /// vllm_v1: returns whether a prompt is admitted only if all of it fits. This is the default from vLLM 0.19 on.
  [[nodiscard]] bool whole_sequence_must_fit() const { return reserve_full_sequence.value_or(version >= 19); }
  [[nodiscard]] Tok max_len() const { return max_total ? *max_total : model_max_len; }
};

}  // namespace plimsoll::sched

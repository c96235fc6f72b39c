// SPDX-License-Identifier: Apache-2.0
// What fits in memory: weights, activations, overhead and the KV pool on one GPU of a TP group.
#pragma once

#include <cstdint>
#include <string>

#include "model/accelerator.h"
#include "model/engine_profile.h"
#include "model/llm_shape.h"

namespace plimsoll::model {

/// Everything that determines what fits in memory.
struct MemoryInputs {
  const LlmShape* shape = nullptr;
  const Accelerator* accelerator = nullptr;
  const EngineProfile* engine = nullptr;
  DType weight_dtype = DType::fp16, kv_dtype = DType::fp16;
  std::int32_t tp = 1, pp = 1;
  std::int64_t step_tokens = 2048;   // most tokens in one forward; determines the activation peak
  std::int64_t max_sequences = 256;  // rows that pass through the LM head
  std::int32_t block_tokens = 16;
  double memory_fraction = -1;  // < 0: as in the engine's profile
};

/// Bytes on the fullest GPU. kv_blocks and kv_tokens are those of the whole replica.
struct MemoryPlan {
  Bytes visible{0}, budget{0};  // budget = visible * memory_fraction
  Bytes weights{0}, activation{0}, overhead{0};
  Bytes kv{0};            // the remainder; negative: the bytes that are missing
  Bytes kv_per_token{0};  // per GPU; KV heads are replicated if kv_heads < tp
  std::int64_t kv_blocks = 0, kv_tokens = 0;
  /// Returns whether there is room for at least one KV block.
  [[nodiscard]] bool fits() const { return kv_blocks > 0; }
};
/// Computes the memory of one GPU and the remaining KV pool, on the pipeline stage that holds the fewest KV blocks.
[[nodiscard]] MemoryPlan plan_memory(const MemoryInputs& inputs);

/// Returns why the degree is impossible ("32 attention heads do not divide by tp 5"); empty if it is possible.
[[nodiscard]] std::string tp_problem(const LlmShape& shape, std::int32_t tp);
/// Returns why the experts cannot be spread over `ep` groups of `tp` ranks; empty if they can.
[[nodiscard]] std::string ep_problem(const LlmShape& shape, std::int32_t tp, std::int32_t ep);

/// Returns the bytes of one rank's weights, with KV heads replicated and the vocabulary padded as in the executor.
[[nodiscard]] Bytes weight_bytes_per_rank(const LlmShape& shape, DType dtype, std::int32_t tp, std::int32_t pp);
[[nodiscard]] Bytes kv_bytes_per_token_per_rank(const LlmShape& shape, DType kv_dtype, std::int32_t tp,
                                                std::int32_t pp);

// The formulas of the JumpStart post, for comparison.
/// (memory - weights) / (kv bytes per token * context), rounded down. `memory` is that of all GPUs of the replica.
[[nodiscard]] std::int64_t jumpstart_max_kv_batch(const LlmShape&, DType, Bytes memory, std::int64_t context);
/// Peak FLOP/s over bandwidth, rounded down: the batch at which weight reads cease to be the limit (70e12 / 600e9 =
/// 116).
[[nodiscard]] std::int64_t jumpstart_critical_batch(const Accelerator&, DType);
/// (4 N^2 d + 3 N^2) / (8 N^2 + 8 N d): operations per byte of naive attention over N tokens with head size d.
[[nodiscard]] double attention_intensity(std::int64_t tokens, std::int64_t head_dim);

// How this project's executor stores weights, which decides their bytes.

/// Weights that the executor rounds to integers on load are in groups of this size, without zero points.
inline constexpr std::int64_t kLoadGroup = 32;

/// Returns the shape with the checkpoint that the executor runs in this type. Integers that the files hold stay as they
/// are; others are rounded on load, in all matrices of the layers but the router. Floats change nothing.
[[nodiscard]] LlmShape stored_shape(LlmShape shape, DType weight_dtype);

}  // namespace plimsoll::model

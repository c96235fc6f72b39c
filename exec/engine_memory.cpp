// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/engine.h"
#include "model/memory_plan.h"
#include "model/tp_layout.h"

namespace plimsoll::exec {

EngineMemory engine_memory(const EngineConfig& config) {
  const model::LlmShape shape = model::stored_shape(config.architecture.shape, config.weight_dtype);
  const model::RankShape rank = model::rank_shape(shape, config.tp);
  const double per_token = model::kv_bytes_per_token_per_rank(shape, config.kv_dtype, config.tp, 1).value;
  EngineMemory memory;
  memory.weights = model::weight_bytes_per_rank(shape, config.weight_dtype, config.tp, 1).value;
  memory.kv = static_cast<double>(config.kv_blocks) * config.block_tokens * per_token;
  // The named buffers of backend.h; on the CPU they hold f32.
  const double element = config.device == DeviceKind::cpu ? 4 : model::activation_element_bytes(config.weight_dtype);
  const std::int64_t widest = std::max(rank.intermediate, rank.shared_intermediate);
  std::int64_t attention = (2 * rank.heads + 2 * rank.kv_heads) * shape.head_dim;
  if (shape.mla) {  // queries, twice in terms of latents, results twice; the latents
    const model::MlaShape& m = *shape.mla;
    const std::int64_t latent = m.kv_lora_rank + m.qk_rope_head_dim;
    attention =
        rank.heads * (m.qk_nope_head_dim + m.qk_rope_head_dim + 3 * latent + m.v_head_dim) + latent + m.q_lora_rank;
  }
  const std::int64_t width = 3 * std::int64_t{shape.hidden} + attention + (shape.gated_mlp ? 3 : 2) * widest;
  double row = static_cast<double>(width) * element;
  if (shape.moe) {
    const std::int64_t expert = 2 * std::int64_t{shape.hidden} + (shape.gated_mlp ? 3 : 2) * rank.expert_intermediate;
    row += static_cast<double>(shape.moe->experts_per_token * expert) * element;
  }
  memory.workspace = row * static_cast<double>(config.step_rows) +
                     element * static_cast<double>(rank.vocab_rows) * static_cast<double>(config.sequences);
  return memory;
}

}  // namespace plimsoll::exec

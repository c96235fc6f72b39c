// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/workspace.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::exec {

Workspace::Workspace(const BackendConfig& config) : poison_(config.poison) {
  const model::LlmShape& shape = config.architecture.shape;
  const model::RankShape& rank = config.rank;
  const auto set = [this](Buffer buffer, std::int64_t width) { width_[static_cast<std::size_t>(buffer)] = width; };
  const std::int64_t halves = shape.gated_mlp ? 2 : 1, mlp = std::max(rank.intermediate, rank.shared_intermediate);
  for (const Buffer buffer : {Buffer::residual, Buffer::delta, Buffer::normed}) set(buffer, shape.hidden);
  set(Buffer::qkv, (rank.heads + 2 * rank.kv_heads) * shape.head_dim);
  set(Buffer::attended, rank.heads * shape.head_dim);
  set(Buffer::up, halves * mlp);
  set(Buffer::gated, mlp);
  set(Buffer::logits, rank.vocab_rows);
  if (shape.moe) {
    const std::int64_t copies = shape.moe->experts_per_token;
    set(Buffer::router, shape.moe->experts);
    set(Buffer::expert_in, copies * shape.hidden);
    set(Buffer::expert_up, copies * halves * rank.expert_intermediate);
    set(Buffer::expert_gated, copies * rank.expert_intermediate);
    set(Buffer::expert_out, copies * shape.hidden);
    if (shape.moe->shared_gate) set(Buffer::shared_gate, 1);
  }
  if (shape.mla) {
    const model::MlaShape& m = *shape.mla;
    const std::int64_t latent = m.kv_lora_rank + m.qk_rope_head_dim;
    set(Buffer::queries, rank.heads * (m.qk_nope_head_dim + m.qk_rope_head_dim));
    set(Buffer::query_latent, m.q_lora_rank);
    set(Buffer::latent, latent);
    set(Buffer::qkv, rank.heads * latent);
    set(Buffer::attended, rank.heads * m.v_head_dim);
  }
  reserve(config.step_rows);
}

void Workspace::reserve(std::int64_t rows) {
  if (rows <= rows_) return;
  for (std::size_t i = 0; i < kBuffers; ++i) {
    const auto bytes = static_cast<std::size_t>(rows * width_[i]) * sizeof(float);
    memory_[i] = HostMemory();
    memory_[i] = HostMemory(bytes, "the activations of a step");
    if (poison_ && bytes > 0) std::memset(memory_[i].data(), 0xff, bytes);
  }
  rows_ = rows;
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/weights.h"

#include <fmt/format.h>

#include "model/error.h"
#include "model/tp_layout.h"

namespace plimsoll::exec {

// Names of our own for messages and random weights; those in files differ by family (tensor_names.cpp).
const char* name(TensorKind kind) {
  switch (kind) {
    case TensorKind::token_embedding: return "token_embedding";
    case TensorKind::position_embedding: return "position_embedding";
    case TensorKind::lm_head: return "lm_head";
    case TensorKind::lm_head_bias: return "lm_head_bias";
    case TensorKind::final_norm: return "final_norm";
    case TensorKind::final_norm_bias: return "final_norm_bias";
    case TensorKind::input_norm: return "input_norm";
    case TensorKind::input_norm_bias: return "input_norm_bias";
    case TensorKind::mlp_norm: return "mlp_norm";
    case TensorKind::mlp_norm_bias: return "mlp_norm_bias";
    case TensorKind::q: return "q";
    case TensorKind::k: return "k";
    case TensorKind::v: return "v";
    case TensorKind::q_bias: return "q_bias";
    case TensorKind::k_bias: return "k_bias";
    case TensorKind::v_bias: return "v_bias";
    case TensorKind::q_norm: return "q_norm";
    case TensorKind::k_norm: return "k_norm";
    case TensorKind::attention_out: return "attention_out";
    case TensorKind::attention_out_bias: return "attention_out_bias";
    case TensorKind::gate: return "gate";
    case TensorKind::up: return "up";
    case TensorKind::down: return "down";
    case TensorKind::gate_bias: return "gate_bias";
    case TensorKind::up_bias: return "up_bias";
    case TensorKind::down_bias: return "down_bias";
    case TensorKind::router: return "router";
    case TensorKind::expert_gate: return "expert_gate";
    case TensorKind::expert_up: return "expert_up";
    case TensorKind::expert_down: return "expert_down";
    case TensorKind::post_attention_norm: return "post_attention_norm";
    case TensorKind::post_mlp_norm: return "post_mlp_norm";
    case TensorKind::q_down: return "q_down";
    case TensorKind::q_latent_norm: return "q_latent_norm";
    case TensorKind::q_up: return "q_up";
    case TensorKind::kv_down: return "kv_down";
    case TensorKind::kv_latent_norm: return "kv_latent_norm";
    case TensorKind::kv_up: return "kv_up";
    case TensorKind::sinks: return "sinks";
    case TensorKind::router_bias: return "router_bias";
    case TensorKind::router_choice_bias: return "router_choice_bias";
    case TensorKind::shared_expert_gate: return "shared_expert_gate";
    case TensorKind::shared_gate: return "shared_gate";
    case TensorKind::shared_up: return "shared_up";
    case TensorKind::shared_down: return "shared_down";
    case TensorKind::expert_gate_bias: return "expert_gate_bias";
    case TensorKind::expert_up_bias: return "expert_up_bias";
    case TensorKind::expert_down_bias: return "expert_down_bias";
  }
  PLIMSOLL_CHECK(false, "a tensor kind has a name");
}

bool is_norm(TensorKind kind) {
  switch (kind) {
    case TensorKind::final_norm:
    case TensorKind::input_norm:
    case TensorKind::mlp_norm:
    case TensorKind::q_norm:
    case TensorKind::k_norm:
    case TensorKind::post_attention_norm:
    case TensorKind::post_mlp_norm:
    case TensorKind::q_latent_norm:
    case TensorKind::kv_latent_norm: return true;
    default: return false;
  }
}

std::string describe(const TensorRef& tensor) {
  std::string text;
  if (tensor.layer >= 0) text += fmt::format("layer {} ", tensor.layer);
  if (tensor.expert >= 0) text += fmt::format("expert {} ", tensor.expert);
  return text + name(tensor.kind);
}

void WeightSource::read_integers(const TensorRef&, const TensorSlice&, const IntegerRows&) const {
  PLIMSOLL_CHECK(false, "a source with integer weights overrides read_integers()");
}

namespace {

TensorShape shape_in_latent_attention(const model::LlmShape& s, TensorKind kind) {
  if (!s.mla) return {};
  const model::MlaShape& m = *s.mla;
  const std::int64_t heads = s.heads, query = m.qk_nope_head_dim + m.qk_rope_head_dim;
  switch (kind) {
    case TensorKind::q: return {heads * query, s.hidden};
    case TensorKind::q_down: return {m.q_lora_rank, s.hidden};
    case TensorKind::q_latent_norm: return {m.q_lora_rank, 1};
    case TensorKind::q_up: return {heads * query, m.q_lora_rank};
    case TensorKind::kv_down: return {m.kv_lora_rank + m.qk_rope_head_dim, s.hidden};
    case TensorKind::kv_latent_norm: return {m.kv_lora_rank, 1};
    case TensorKind::kv_up: return {heads * (m.qk_nope_head_dim + m.v_head_dim), m.kv_lora_rank};
    case TensorKind::attention_out: return {s.hidden, heads * m.v_head_dim};
    default: return {};
  }
}

}  // namespace

TensorShape shape_of(const model::Architecture& architecture, const TensorRef& tensor) {
  const model::LlmShape& s = architecture.shape;
  if (const TensorShape latent = shape_in_latent_attention(s, tensor.kind); latent.rows > 0) return latent;
  const std::int64_t queries = std::int64_t{s.heads} * s.head_dim, keys = std::int64_t{s.kv_heads} * s.head_dim;
  // The shapes of the whole model, before ranks take their parts of it.
  const std::int64_t expert = s.moe ? s.moe->intermediate : 0, experts = s.moe ? s.moe->experts : 0;
  const std::int64_t shared = model::rank_shape(s, 1).shared_intermediate;
  switch (tensor.kind) {
    case TensorKind::token_embedding:
    case TensorKind::lm_head: return {s.vocab, s.hidden};
    case TensorKind::position_embedding: return {s.max_position, s.hidden};
    // Vectors are matrices of one column.
    case TensorKind::lm_head_bias: return {s.vocab, 1};
    case TensorKind::final_norm:
    case TensorKind::final_norm_bias:
    case TensorKind::input_norm:
    case TensorKind::input_norm_bias:
    case TensorKind::mlp_norm:
    case TensorKind::mlp_norm_bias:
    case TensorKind::post_attention_norm:
    case TensorKind::post_mlp_norm:
    case TensorKind::attention_out_bias:
    case TensorKind::down_bias: return {s.hidden, 1};
    case TensorKind::q: return {queries, s.hidden};
    case TensorKind::k:
    case TensorKind::v: return {keys, s.hidden};
    case TensorKind::q_bias: return {queries, 1};
    case TensorKind::k_bias:
    case TensorKind::v_bias: return {keys, 1};
    case TensorKind::q_norm: return {model::has_wide_qk_norm(s) ? queries : s.head_dim, 1};
    case TensorKind::k_norm: return {model::has_wide_qk_norm(s) ? keys : s.head_dim, 1};
    case TensorKind::attention_out: return {s.hidden, queries};
    case TensorKind::gate:
    case TensorKind::up: return {s.intermediate, s.hidden};
    case TensorKind::down: return {s.hidden, s.intermediate};
    case TensorKind::gate_bias:
    case TensorKind::up_bias: return {s.intermediate, 1};
    case TensorKind::router: return {experts, s.hidden};
    case TensorKind::router_bias:
    case TensorKind::router_choice_bias: return {experts, 1};
    case TensorKind::shared_expert_gate: return {1, s.hidden};
    case TensorKind::shared_gate:
    case TensorKind::shared_up: return {shared, s.hidden};
    case TensorKind::shared_down: return {s.hidden, shared};
    case TensorKind::expert_gate:
    case TensorKind::expert_up: return {expert, s.hidden};
    case TensorKind::expert_down: return {s.hidden, expert};
    case TensorKind::expert_gate_bias:
    case TensorKind::expert_up_bias: return {expert, 1};
    case TensorKind::expert_down_bias: return {s.hidden, 1};
    case TensorKind::sinks: return {s.heads, 1};
    case TensorKind::q_down:
    case TensorKind::q_latent_norm:
    case TensorKind::q_up:
    case TensorKind::kv_down:
    case TensorKind::kv_latent_norm:
    case TensorKind::kv_up: break;  // only in latent attention
  }
  PLIMSOLL_CHECK(false, "every tensor kind has a shape");
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Tested against the parameter counts of 56 published architectures (tests/model/llm_shape_test.cpp).
#include "model/tp_layout.h"

#include <algorithm>
#include <string>
#include <utility>

namespace plimsoll::model {
namespace {

constexpr std::int64_t kVocabularyPadding = 64;  // rows per rank, as in the executor's layout

std::int64_t padded_vocabulary(std::int64_t vocab, std::int64_t tp) {
  if (tp == 1) return vocab;
  const std::int64_t unit = kVocabularyPadding * tp;
  return (vocab + unit - 1) / unit * unit;
}

// Families with biases that the shape's flags do not describe.
bool has_mlp_bias(const LlmShape& shape) { return shape.family == "opt" || shape.family == "gptj"; }
bool has_output_bias(const LlmShape& shape) { return shape.family == "opt" || shape.family == "gpt_oss"; }
bool has_expert_bias(const LlmShape& shape) { return shape.family == "gpt_oss"; }
bool has_sinks(const LlmShape& shape) { return shape.family == "gpt_oss"; }  // a learned logit per head

// Applies the checkpoint: marks the matrices that it keeps in 16 bits, and adds the bytes of scales to the others.
std::vector<Matrix> stored(std::vector<Matrix> matrices, const LlmShape& shape) {
  if (!shape.checkpoint) return matrices;
  const std::vector<std::string>& wide = shape.checkpoint->wide;
  for (Matrix& matrix : matrices) {
    matrix.scale_bytes = shape.checkpoint->scale_bytes;
    if (std::find(wide.begin(), wide.end(), name(matrix.id)) != wide.end()) matrix.quantised = false;
  }
  return matrices;
}

std::vector<Matrix> latent_attention_matrices(const LlmShape& shape, const RankShape& rank) {
  const MlaShape& mla = *shape.mla;
  const std::int64_t hidden = shape.hidden;
  const std::int64_t query = rank.heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim);
  std::vector<Matrix> out;
  if (mla.q_lora_rank > 0) {
    out.push_back({OpId::q_down, mla.q_lora_rank, hidden});
    out.push_back({OpId::q_up, query, mla.q_lora_rank});
  } else {
    out.push_back({OpId::q, query, hidden});
  }
  out.push_back({OpId::kv_down, mla.kv_lora_rank + mla.qk_rope_head_dim, hidden});
  out.push_back({OpId::kv_up, rank.heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank});
  out.push_back({OpId::attention_out, hidden, rank.heads * mla.v_head_dim});
  return out;
}

}  // namespace

RankShape rank_shape(const LlmShape& shape, std::int32_t tp) {
  RankShape rank;
  rank.heads = shape.heads / tp;
  rank.kv_heads = std::max<std::int64_t>(1, shape.kv_heads / tp);
  rank.intermediate = shape.intermediate / tp;
  if (shape.moe) {
    rank.expert_intermediate = shape.moe->intermediate / tp;
    const std::int64_t together = std::int64_t{shape.moe->shared_experts} * shape.moe->intermediate;
    rank.shared_intermediate = (shape.moe->shared_intermediate > 0 ? shape.moe->shared_intermediate : together) / tp;
  }
  rank.vocab_rows = padded_vocabulary(shape.vocab, tp) / tp;
  return rank;
}

LayerKind layer_kind(const LlmShape& shape, std::int32_t layer) {
  LayerKind kind;
  const auto place = static_cast<std::size_t>(layer);
  const bool in_window = shape.windows.empty() ? layer % std::max(1, shape.window_period) == 0
                                               : place < shape.windows.size() && shape.windows[place] != 0;
  kind.windowed = shape.sliding_window > 0 && in_window;
  kind.moe = shape.moe && layer >= shape.moe->first_dense_layers && (layer + 1) % std::max(1, shape.moe->period) == 0;
  return kind;
}

LayerRange stage_layers(const LlmShape& shape, std::int32_t pp, std::int32_t stage) {
  const std::int32_t base = shape.layers / pp;
  const std::int32_t extra = shape.layers % pp;
  return {stage * base + std::min(stage, extra), base + (stage < extra ? 1 : 0)};
}

std::vector<Matrix> attention_matrices(const LlmShape& shape, std::int32_t tp) {
  const RankShape rank = rank_shape(shape, tp);
  if (shape.mla) return stored(latent_attention_matrices(shape, rank), shape);
  return stored({{OpId::qkv, (rank.heads + 2 * rank.kv_heads) * shape.head_dim, shape.hidden},
                 {OpId::attention_out, shape.hidden, rank.heads * shape.head_dim}},
                shape);
}

std::vector<Matrix> mlp_matrices(const LlmShape& shape, std::int32_t tp, bool moe) {
  const RankShape rank = rank_shape(shape, tp);
  std::vector<Matrix> out;
  const auto add = [&](std::int64_t width, OpId up_id, OpId down_id) {
    out.push_back({up_id, (shape.gated_mlp ? 2 : 1) * width, shape.hidden});
    out.push_back({down_id, shape.hidden, width});
  };
  if (!moe) {
    add(rank.intermediate, shape.gated_mlp ? OpId::gate_up : OpId::up, OpId::down);
    return stored(std::move(out), shape);
  }
  out.push_back({OpId::router, shape.moe->experts, shape.hidden, 1, false});
  if (rank.shared_intermediate > 0) {
    if (shape.moe->shared_gate) out.push_back({OpId::shared_gate, 1, shape.hidden, 1, false});
    add(rank.shared_intermediate, shape.gated_mlp ? OpId::shared_gate_up : OpId::shared_up, OpId::shared_down);
  }
  const auto routed = static_cast<std::ptrdiff_t>(out.size());
  add(rank.expert_intermediate, shape.gated_mlp ? OpId::expert_gate_up : OpId::expert_up, OpId::expert_down);
  for (auto it = out.begin() + routed; it != out.end(); ++it) it->copies = shape.moe->experts;
  return stored(std::move(out), shape);
}

bool has_wide_qk_norm(const LlmShape& shape) {
  return shape.qk_norm && (shape.family == "minimax_m2" || shape.family == "olmo2");
}

std::int32_t norms_per_layer(const LlmShape& shape) {
  if (shape.norms > 0) return shape.norms;
  // Norms before and after each sublayer.
  if (shape.family == "gemma2" || shape.family == "gemma3" || shape.family == "glm4") return 4;
  if (shape.family == "gptj") return 1;  // a single norm shared by attention and MLP
  // Falcon: 7B shares one norm; the new decoder and sequential sublayers have one for each.
  if (shape.family == "falcon") return shape.kv_heads == 1 && shape.parallel_attention ? 1 : 2;
  return 2;
}

double layer_vector_elements(const LlmShape& shape, std::int32_t tp) {
  const RankShape rank = rank_shape(shape, tp);
  const std::int64_t per_norm = shape.norm == Norm::layernorm ? 2 : 1;
  std::int64_t elements = norms_per_layer(shape) * per_norm * shape.hidden;
  if (shape.mla) elements += shape.mla->q_lora_rank + shape.mla->kv_lora_rank;
  if (shape.qkv_bias) elements += (rank.heads + 2 * rank.kv_heads) * shape.head_dim;
  if (shape.qk_norm) elements += (has_wide_qk_norm(shape) ? rank.heads + rank.kv_heads : 2) * shape.head_dim;
  if (has_sinks(shape)) elements += rank.heads;
  if (has_output_bias(shape)) elements += shape.hidden;
  if (has_mlp_bias(shape)) elements += rank.intermediate + shape.hidden;
  return static_cast<double>(elements);
}

double expert_vector_elements(const LlmShape& shape, std::int32_t tp, std::int32_t experts) {
  if (!has_expert_bias(shape)) return 0;
  const std::int64_t width = rank_shape(shape, tp).expert_intermediate;
  return static_cast<double>(shape.moe->experts + experts * ((shape.gated_mlp ? 2 : 1) * width + shape.hidden));
}

double kv_elements_per_layer(const LlmShape& shape, std::int32_t tp) {
  if (shape.mla) return shape.mla->kv_lora_rank + shape.mla->qk_rope_head_dim;  // every rank holds the whole latent
  return 2.0 * static_cast<double>(rank_shape(shape, tp).kv_heads) * shape.head_dim;
}

double activation_element_bytes(DType weight_dtype) { return weight_dtype == DType::fp32 ? 4.0 : 2.0; }

double matrix_bytes(const Matrix& matrix, DType weight_dtype) {
  const double wide = activation_element_bytes(weight_dtype), narrow = bytes_per_element(weight_dtype);
  if (!matrix.quantised || narrow >= wide) return matrix.elements() * (matrix.quantised ? narrow : wide);
  return matrix.elements() * (narrow + matrix.scale_bytes);
}

}  // namespace plimsoll::model

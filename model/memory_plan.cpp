// SPDX-License-Identifier: Apache-2.0
#include "model/memory_plan.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <utility>

#include <algorithm>
#include <cmath>

#include "model/tp_layout.h"

namespace plimsoll::model {
namespace {

// Norm weights and biases are kept in the type of the activations, however narrow the matrices are.
double layer_bytes(const LlmShape& shape, DType dtype, std::int32_t tp, bool moe) {
  double vectors = layer_vector_elements(shape, tp);
  if (moe) vectors += expert_vector_elements(shape, tp, shape.moe->experts);
  double bytes = vectors * activation_element_bytes(dtype);
  for (const Matrix& matrix : attention_matrices(shape, tp)) bytes += matrix_bytes(matrix, dtype);
  for (const Matrix& matrix : mlp_matrices(shape, tp, moe)) bytes += matrix_bytes(matrix, dtype);
  return bytes;
}

// A model's weights, divided over tp x pp ranks.
struct ShardedWeights {
  const LlmShape& shape;
  DType dtype;
  std::int32_t tp, pp;

  [[nodiscard]] double table_bytes(std::int32_t stage) const;
  [[nodiscard]] double stage_bytes(std::int32_t stage) const;
};

// The embedding is on the first stage, final norm and LM head on the last. A tied embedding is shared only if both are
// one stage.
double ShardedWeights::table_bytes(std::int32_t stage) const {
  const double element = activation_element_bytes(dtype);
  const double table = static_cast<double>(rank_shape(shape, tp).vocab_rows) * shape.hidden * element;
  const bool first = stage == 0, last = stage == pp - 1;
  double bytes = 0;
  if (first) bytes += table;
  if (first && shape.learned_positions) bytes += (shape.max_position + 2.0) * shape.hidden * element;
  if (last && !(first && shape.tie_embeddings)) bytes += table;
  if (last) bytes += shape.hidden * (shape.norm == Norm::layernorm ? 2 : 1) * element;
  // The LM head of GPT-J has a bias.
  if (last && shape.family == "gptj") bytes += static_cast<double>(rank_shape(shape, tp).vocab_rows) * element;
  return bytes;
}

double ShardedWeights::stage_bytes(std::int32_t stage) const {
  const LayerRange range = stage_layers(shape, pp, stage);
  double bytes = table_bytes(stage);
  const double dense = layer_bytes(shape, dtype, tp, false);
  const double moe = shape.moe ? layer_bytes(shape, dtype, tp, true) : 0;
  for (std::int32_t i = 0; i < range.count; ++i) bytes += layer_kind(shape, range.first + i).moe ? moe : dense;
  return bytes;
}

double stage_kv_bytes(const LlmShape& shape, DType kv_dtype, std::int32_t tp, std::int32_t layers) {
  return layers * kv_elements_per_layer(shape, tp) * bytes_per_element(kv_dtype);
}

// An estimate of the peak: the residual stream and its normalised copy, plus the larger of the attention's and the
// MLP's buffers, or the logits in fp32.
double activation_bytes(const MemoryInputs& in) {
  const LlmShape& shape = *in.shape;
  const RankShape rank = rank_shape(shape, in.tp);
  const double element = activation_element_bytes(in.weight_dtype);
  double attention = 0;
  for (const Matrix& matrix : attention_matrices(shape, in.tp)) attention += static_cast<double>(matrix.n);
  // Inputs and outputs of the activation function exist at once: gate, up and product, or two without a gate.
  const double gates = shape.gated_mlp ? 3 : 2;
  double mlp = gates * static_cast<double>(std::max(rank.intermediate, rank.shared_intermediate));
  if (shape.moe) {
    const double routed = gates * static_cast<double>(rank.expert_intermediate) + 2.0 * shape.hidden;
    mlp = std::max(mlp, shape.moe->experts_per_token * routed);
  }
  const double tokens = static_cast<double>(in.step_tokens) * (2.0 * shape.hidden + std::max(attention, mlp)) * element;
  // Sampling needs the logits of the whole vocabulary in one place.
  const double logits = 4.0 * static_cast<double>(in.max_sequences) * static_cast<double>(rank.vocab_rows) * in.tp;
  return std::max(tokens, logits) * in.engine->activation_factor;
}

MemoryPlan plan_stage(const MemoryInputs& in, std::int32_t stage) {
  const Accelerator& accelerator = *in.accelerator;
  // As in vLLM, a fraction of the memory that the driver reports, not of the nominal size.
  const double fraction = in.memory_fraction < 0 ? in.engine->memory_fraction : in.memory_fraction;
  MemoryPlan plan;
  plan.visible = accelerator.memory_visible.value > 0 ? accelerator.memory_visible : accelerator.memory;
  plan.budget = plan.visible * fraction;
  plan.weights = Bytes(ShardedWeights{*in.shape, in.weight_dtype, in.tp, in.pp}.stage_bytes(stage));
  plan.activation = Bytes(activation_bytes(in));
  plan.overhead = in.engine->overhead + in.engine->graph_pool;
  plan.kv = plan.budget - plan.weights - plan.activation - plan.overhead;
  plan.kv_per_token = Bytes(stage_kv_bytes(*in.shape, in.kv_dtype, in.tp, stage_layers(*in.shape, in.pp, stage).count));
  if (plan.kv.value > 0) {
    plan.kv_blocks = static_cast<std::int64_t>(std::floor(plan.kv / (plan.kv_per_token * double(in.block_tokens))));
  }
  plan.kv_tokens = plan.kv_blocks * in.block_tokens;
  return plan;
}

}  // namespace

// All stages hold the blocks of the same requests, so the stage with the fewest limits the others.
MemoryPlan plan_memory(const MemoryInputs& inputs) {
  MemoryPlan fullest = plan_stage(inputs, 0);
  for (std::int32_t stage = 1; stage < inputs.pp; ++stage) {
    const MemoryPlan plan = plan_stage(inputs, stage);
    const bool fuller = plan.kv_blocks != fullest.kv_blocks ? plan.kv_blocks < fullest.kv_blocks : plan.kv < fullest.kv;
    if (fuller) fullest = plan;
  }
  return fullest;
}

// KV heads may be fewer than ranks: each is then copied to several ranks, which works only in whole copies.
std::string tp_problem(const LlmShape& shape, std::int32_t tp) {
  if (tp < 1) return fmt::format("tp {} is less than 1", tp);
  if (shape.heads % tp != 0) return fmt::format("{} attention heads do not divide by tp {}", shape.heads, tp);
  const bool kv_fits = shape.mla || shape.kv_heads % tp == 0 || tp % shape.kv_heads == 0;
  if (!kv_fits) return fmt::format("{} KV heads neither divide by tp {} nor divide it", shape.kv_heads, tp);
  const bool has_dense = !shape.moe || shape.moe->first_dense_layers > 0 || shape.moe->period > 1;
  if (has_dense && shape.intermediate % tp != 0) {
    return fmt::format("MLP width {} does not divide by tp {}", shape.intermediate, tp);
  }
  if (shape.moe && shape.moe->intermediate % tp != 0) {
    return fmt::format("expert width {} does not divide by tp {}", shape.moe->intermediate, tp);
  }
  if (shape.moe && shape.moe->shared_intermediate % tp != 0) {
    return fmt::format("width {} of the shared experts does not divide by tp {}", shape.moe->shared_intermediate, tp);
  }
  return {};
}

std::string ep_problem(const LlmShape& shape, std::int32_t tp, std::int32_t ep) {
  if (ep == 1) return {};
  if (!shape.moe) return "the model has no experts";
  if (tp % ep != 0) return fmt::format("tp {} does not divide by ep {}", tp, ep);
  if (shape.moe->experts % ep != 0) return fmt::format("{} experts do not divide by ep {}", shape.moe->experts, ep);
  return {};
}

Bytes weight_bytes_per_rank(const LlmShape& shape, DType dtype, std::int32_t tp, std::int32_t pp) {
  const ShardedWeights weights{shape, dtype, tp, pp};
  double most = 0;
  for (std::int32_t stage = 0; stage < pp; ++stage) most = std::max(most, weights.stage_bytes(stage));
  return Bytes(most);
}

Bytes kv_bytes_per_token_per_rank(const LlmShape& shape, DType kv_dtype, std::int32_t tp, std::int32_t pp) {
  return Bytes(stage_kv_bytes(shape, kv_dtype, tp, stage_layers(shape, pp, 0).count));
}

std::int64_t jumpstart_max_kv_batch(const LlmShape& shape, DType dtype, Bytes memory, std::int64_t context) {
  const double weights = weight_count(shape) * bytes_per_element(dtype);
  const double left = memory.value - weights;
  if (left <= 0) return 0;
  const double sequence = kv_bytes_per_token(shape, dtype).value * static_cast<double>(context);
  return static_cast<std::int64_t>(std::floor(left / sequence));
}

std::int64_t jumpstart_critical_batch(const Accelerator& accelerator, DType dtype) {
  return static_cast<std::int64_t>(
      std::floor(matmul_peak(accelerator, dtype).value / accelerator.memory_bandwidth.value));
}

double attention_intensity(std::int64_t tokens, std::int64_t head_dim) {
  const auto n = static_cast<double>(tokens), d = static_cast<double>(head_dim);
  return (4 * n * n * d + 3 * n * n) / (8 * n * n + 8 * n * d);
}

LlmShape stored_shape(LlmShape shape, DType weight_dtype) {
  if (weight_dtype != DType::int8 && weight_dtype != DType::int4) return shape;
  if (shape.checkpoint && shape.checkpoint->dtype == weight_dtype) return shape;
  constexpr double kScaleBytes = 2;
  const int bits = weight_dtype == DType::int8 ? 8 : 4;
  Checkpoint rounded;
  rounded.dtype = weight_dtype;
  rounded.scale_bytes = kScaleBytes / kLoadGroup;
  rounded.format = fmt::format("rounded on load, {} bits, groups of {}", bits, kLoadGroup);
  shape.checkpoint = std::move(rounded);
  return shape;
}

}  // namespace plimsoll::model

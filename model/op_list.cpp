// SPDX-License-Identifier: Apache-2.0
#include "model/op_list.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace plimsoll::model {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// Adds the ops of one layer for `tokens` rows, in order. Attention is left out: see make_op_list.
class LayerBuilder {
 public:
  LayerBuilder(const OpListInputs& inputs, std::int64_t tokens)
      : inputs_(inputs),
        shape_(*inputs.shape),
        rank_(rank_shape(shape_, inputs.tp)),
        tokens_(tokens),
        element_(activation_element_bytes(inputs.weight_dtype)) {}

  // Builds the list. Afterwards attention_index() is the place at which to insert the attention ops.
  std::vector<Op> build(bool moe) {
    add_norm(OpId::input_norm);
    add_projections();
    attention_index_ = ops_.size();
    const std::vector<Matrix> matrices = attention_matrices(shape_, inputs_.tp);
    add_gemm(matrices.back());
    if (!shape_.parallel_attention) {
      add_all_reduce(OpId::attention_all_reduce);
      if (norms_per_layer(shape_) == 4) add_norm(OpId::post_attention_norm);
    }
    if (norms_per_layer(shape_) >= 2) add_norm(OpId::mlp_norm);
    moe ? add_experts() : add_mlp();
    add_all_reduce(shape_.parallel_attention ? OpId::layer_all_reduce : OpId::mlp_all_reduce);
    if (norms_per_layer(shape_) == 4) add_norm(OpId::post_mlp_norm);
    return std::move(ops_);
  }
  [[nodiscard]] std::size_t attention_index() const { return attention_index_; }

 private:
  // The activations that an op walks over.
  struct Extent {
    std::int64_t rows, width;
  };
  // `elements`: how often each activation is read or written.
  void add_pointwise(OpKind kind, OpId id, Extent extent, double elements) {
    Op op{.kind = kind, .id = id, .m = extent.rows, .n = extent.width};
    op.other_bytes = elements * real(extent.rows) * real(extent.width) * element_;
    ops_.push_back(op);
  }

  void add_norm(OpId id) {
    if (inputs_.capabilities.fused_residual_norm) {
      add_pointwise(OpKind::norm, id, {tokens_, shape_.hidden}, 4);  // reads x and residual, writes both
      return;
    }
    add_pointwise(OpKind::residual_add, OpId::residual_add, {tokens_, shape_.hidden}, 3);
    add_pointwise(OpKind::norm, id, {tokens_, shape_.hidden}, 2);
  }

  void add_gemm(const Matrix& matrix) {
    Op op{.kind = OpKind::gemm, .id = matrix.id, .m = tokens_, .n = matrix.n, .k = matrix.k};
    op.flops = 2 * real(tokens_) * matrix.elements();
    op.weight_bytes = matrix_bytes(matrix, inputs_.weight_dtype);
    op.other_bytes = real(tokens_) * real(matrix.n + matrix.k) * element_;
    op.quantised = matrix.quantised;
    ops_.push_back(op);
  }

  // The grouped product of the routed experts reads only the experts reached by some token.
  void add_expert_gemm(const Matrix& matrix) {
    const MoeShape& moe = *shape_.moe;
    const double rows = real(tokens_) * moe.experts_per_token;
    // Few tokens do not reach all experts, and the weights of other experts are not read from memory.
    const double reached = expected_experts(moe.experts, moe.experts_per_token, real(tokens_));
    Op op{.kind = OpKind::moe_gemm, .id = matrix.id, .m = tokens_, .n = matrix.n, .k = matrix.k};
    op.flops = 2 * rows * real(matrix.n) * real(matrix.k);
    op.weight_bytes = matrix_bytes(matrix, inputs_.weight_dtype) * reached / moe.experts;
    op.other_bytes = rows * real(matrix.n + matrix.k) * element_;
    ops_.push_back(op);
  }

  // Engines that do not fuse these matrices launch one product per part, and each product reads the input.
  void add_split_gemm(const Matrix& matrix, std::span<const std::pair<OpId, std::int64_t>> parts) {
    for (const auto& [id, width] : parts) {
      Matrix part = matrix;
      part.id = id;
      part.n = width;
      add_gemm(part);
    }
  }

  void add_projections() {
    if (shape_.mla) {
      add_latent_projections();
      return;
    }
    const Matrix qkv = attention_matrices(shape_, inputs_.tp).front();
    const std::int64_t queries = rank_.heads * shape_.head_dim;
    const std::int64_t keys = rank_.kv_heads * shape_.head_dim;
    if (inputs_.capabilities.fused_qkv) {
      add_gemm(qkv);
    } else {
      const std::pair<OpId, std::int64_t> parts[] = {{OpId::q, queries}, {OpId::k, keys}, {OpId::v, keys}};
      add_split_gemm(qkv, parts);
    }
    add_rope_append(queries + 2 * keys);
  }

  // Multi-head latent attention: queries and keys are projected down, normalised and projected up again. Only the
  // latent and one rotary key are cached.
  void add_latent_projections() {
    const MlaShape& mla = *shape_.mla;
    const std::vector<Matrix> matrices = attention_matrices(shape_, inputs_.tp);
    for (const Matrix& matrix : matrices) {
      if (matrix.id == OpId::q_up) add_pointwise(OpKind::norm, OpId::q_norm, {tokens_, mla.q_lora_rank}, 2);
      if (matrix.id == OpId::kv_up) add_pointwise(OpKind::norm, OpId::kv_norm, {tokens_, mla.kv_lora_rank}, 2);
      if (matrix.id != OpId::attention_out) add_gemm(matrix);
    }
    add_rope_append((rank_.heads + 1) * mla.qk_rope_head_dim + mla.kv_lora_rank);
  }

  void add_rope_append(std::int64_t width) {
    if (inputs_.capabilities.fused_rope_append) {
      add_pointwise(OpKind::rope_append, OpId::rope_append, {tokens_, width}, 2);
      return;
    }
    if (shape_.qk_norm) add_pointwise(OpKind::norm, OpId::qk_norm, {tokens_, width}, 2);
    add_pointwise(OpKind::rope_append, OpId::rope, {tokens_, width}, 2);
    add_pointwise(OpKind::rope_append, OpId::append, {tokens_, width}, 2);
  }

  // Adds one dense MLP: up projections, activation, down projection.
  void add_dense(const Matrix& up, const Matrix& down, OpId activation) {
    if (shape_.gated_mlp && !inputs_.capabilities.fused_gate_up) {
      const std::pair<OpId, std::int64_t> parts[] = {{OpId::gate, up.n / 2}, {OpId::up, up.n / 2}};
      add_split_gemm(up, parts);
    } else {
      add_gemm(up);
    }
    add_pointwise(OpKind::activation, activation, {tokens_, down.k}, shape_.gated_mlp ? 3 : 2);
    add_gemm(down);
  }

  void add_mlp() {
    const std::vector<Matrix> matrices = mlp_matrices(shape_, inputs_.tp, false);
    add_dense(matrices[0], matrices[1], OpId::activation);
  }

  void add_experts() {
    const std::vector<Matrix> matrices = mlp_matrices(shape_, inputs_.tp, true);
    const std::int64_t rows = tokens_ * shape_.moe->experts_per_token;
    add_gemm(matrices.front());
    if (shape_.moe->shared_gate) add_gemm(matrices[1]);
    // More than three matrices mean shared experts, which every token passes through beside its routed ones.
    const std::size_t shared = shape_.moe->shared_gate ? 2 : 1;
    if (matrices.size() > 3) add_dense(matrices[shared], matrices[shared + 1], OpId::shared_activation);
    add_pointwise(OpKind::route, OpId::route, {rows, shape_.hidden}, 2);  // top k, then rows sorted by expert
    add_expert_gemm(matrices[matrices.size() - 2]);
    add_pointwise(OpKind::activation, OpId::expert_activation, {rows, matrices.back().k}, shape_.gated_mlp ? 3 : 2);
    add_expert_gemm(matrices.back());
    add_pointwise(OpKind::combine, OpId::combine, {rows, shape_.hidden}, 1 + 1.0 / shape_.moe->experts_per_token);
  }

  void add_all_reduce(OpId id) {
    if (inputs_.tp == 1) return;
    Op op{.kind = OpKind::all_reduce, .id = id, .m = tokens_, .n = shape_.hidden};
    op.other_bytes = real(tokens_) * shape_.hidden * element_;
    ops_.push_back(op);
  }

  const OpListInputs& inputs_;
  const LlmShape& shape_;
  RankShape rank_;
  std::int64_t tokens_;
  double element_;
  std::vector<Op> ops_;
  std::size_t attention_index_ = 0;
};

void add_embedding(std::vector<Op>& ops, const OpListInputs& inputs, std::int64_t tokens) {
  const LlmShape& shape = *inputs.shape;
  const double bytes = real(tokens) * shape.hidden * activation_element_bytes(inputs.weight_dtype);
  Op embed{.kind = OpKind::embed, .id = OpId::embed, .m = tokens, .n = shape.hidden};
  embed.other_bytes = bytes * (shape.learned_positions ? 3 : 2);
  ops.push_back(embed);
  if (inputs.tp > 1) {  // every rank holds part of the vocabulary
    Op reduce{.kind = OpKind::all_reduce, .id = OpId::embedding_all_reduce, .m = tokens, .n = shape.hidden};
    reduce.other_bytes = bytes;
    ops.push_back(reduce);
  }
  if (inputs.pp > 1) {
    Op send{.kind = OpKind::send, .id = OpId::stage_send, .m = tokens, .n = shape.hidden};
    send.count = inputs.pp - 1;
    send.other_bytes = bytes;
    ops.push_back(send);
  }
}

// Attention ops of one layer, to be inserted between the projections.
std::vector<Op> attention_ops(const OpListInputs& inputs, const ForwardWork& work, bool windowed) {
  std::vector<Op> ops;
  for (const PrefillSpan& span : work.prefill) {
    if (span.new_tokens == 0) continue;
    ops.push_back(prefill_attention_op(inputs, span, windowed));
  }
  for (Op& op : ops) op.launches = 1 / static_cast<double>(ops.size());
  if (work.decode_rows > 0) {
    const double context = windowed ? work.decode_context_windowed : work.decode_context;
    ops.push_back(decode_attention_op(inputs, work.decode_rows, context));
  }
  return ops;
}

OpList build_list(const OpListInputs& inputs, std::int64_t tokens, const ForwardWork* work) {
  OpList list;
  add_embedding(list.before, inputs, tokens);
  for (const LayerGroup& group : layer_groups(*inputs.shape)) {
    LayerBuilder builder(inputs, tokens);
    LayerOps layer{group.kind, group.layers, builder.build(group.kind.moe)};
    if (work != nullptr) {
      const std::vector<Op> attention = attention_ops(inputs, *work, group.kind.windowed);
      const auto place = layer.ops.begin() + static_cast<std::ptrdiff_t>(builder.attention_index());
      layer.ops.insert(place, attention.begin(), attention.end());
    }
    for (Op& op : layer.ops) op.count = group.layers;
    list.layers.push_back(std::move(layer));
  }
  return list;
}

}  // namespace

std::string_view pointwise_kind(OpKind kind) {
  switch (kind) {
    case OpKind::embed: return "embed";
    case OpKind::norm: return "norm";
    case OpKind::residual_add: return "residual_add";
    case OpKind::rope_append: return "rope_append";
    case OpKind::activation: return "activation";
    case OpKind::route: return "route";
    case OpKind::combine: return "combine";
    case OpKind::sample: return "sample";
    case OpKind::gemm:
    case OpKind::moe_gemm:
    case OpKind::prefill_attention:
    case OpKind::decode_attention:
    case OpKind::all_reduce:
    case OpKind::send: break;
  }
  return {};
}

OpList make_op_list(const OpListInputs& inputs, const ForwardWork& work) {
  OpList list = build_list(inputs, total_tokens(work), &work);
  list.after = head_ops(inputs, work.sampled);
  return list;
}

OpList linear_ops(const OpListInputs& inputs, std::int64_t tokens) { return build_list(inputs, tokens, nullptr); }

// Only rows that sample a token reach the LM head: the last row of a prompt, and each decode row.
std::vector<Op> head_ops(const OpListInputs& inputs, std::int64_t sampled) {
  if (sampled == 0) return {};
  const LlmShape& shape = *inputs.shape;
  const double element = activation_element_bytes(inputs.weight_dtype);
  const std::int64_t rows = rank_shape(shape, inputs.tp).vocab_rows;
  Op norm{.kind = OpKind::norm, .id = OpId::final_norm, .m = sampled, .n = shape.hidden};
  norm.other_bytes = 3 * real(sampled) * shape.hidden * element;
  Op head{.kind = OpKind::gemm, .id = OpId::lm_head, .m = sampled, .n = rows, .k = shape.hidden};
  head.flops = 2 * real(sampled) * real(rows) * shape.hidden;
  head.weight_bytes = real(rows) * shape.hidden * element;
  head.quantised = false;
  head.other_bytes = real(sampled) * real(rows + shape.hidden) * element;
  Op sample{.kind = OpKind::sample, .id = OpId::sample, .m = sampled, .n = rows};
  sample.other_bytes = real(sampled) * real(rows) * element;
  std::vector<Op> ops{norm, head, sample};
  if (inputs.tp > 1) {  // the best (value, index) of every rank: 8 bytes per sequence
    Op exchange{.kind = OpKind::all_reduce, .id = OpId::sample_exchange, .m = sampled, .n = 1};
    exchange.other_bytes = 8 * real(sampled);
    ops.push_back(exchange);
  }
  return ops;
}

Op prefill_attention_op(const OpListInputs& inputs, PrefillSpan span, bool windowed) {
  const LlmShape& shape = *inputs.shape;
  const RankShape rank = rank_shape(shape, inputs.tp);
  const std::int64_t window = windowed ? shape.sliding_window : 0;
  const double pairs = attention_pairs(span, window);
  double attended = real(span.context + span.new_tokens);
  // A chunk of n tokens attends to the window before its first token and to itself.
  if (window > 0) attended = std::min(attended, real(window - 1 + span.new_tokens));
  Op op{.kind = OpKind::prefill_attention, .id = OpId::prefill_attention, .m = span.new_tokens};
  op.context = attended;
  op.kv_bytes = attended * kv_elements_per_layer(shape, inputs.tp) * bytes_per_element(inputs.kv_dtype);
  std::int64_t qk = shape.head_dim, value = shape.head_dim;
  if (shape.mla) {  // expanded: the cached latents are projected up again
    qk = shape.mla->qk_nope_head_dim + shape.mla->qk_rope_head_dim;
    value = shape.mla->v_head_dim;
    op.flops +=
        2 * real(span.context) * shape.mla->kv_lora_rank * real(rank.heads * (shape.mla->qk_nope_head_dim + value));
  }
  op.n = rank.heads * qk;
  op.flops += 2 * real(rank.heads * (qk + value)) * pairs;
  op.other_bytes =
      real(span.new_tokens) * real(rank.heads * (qk + value)) * activation_element_bytes(inputs.weight_dtype);
  return op;
}

Op decode_attention_op(const OpListInputs& inputs, std::int64_t rows, double context) {
  const LlmShape& shape = *inputs.shape;
  const RankShape rank = rank_shape(shape, inputs.tp);
  std::int64_t qk = shape.head_dim, value = shape.head_dim;
  if (shape.mla) {  // absorbed: queries are compared with the latent itself, which is read once
    qk = shape.mla->kv_lora_rank + shape.mla->qk_rope_head_dim;
    value = shape.mla->kv_lora_rank;
  }
  Op op{.kind = OpKind::decode_attention, .id = OpId::decode_attention, .m = rows, .n = rank.heads * qk};
  op.context = context;
  op.kv_bytes = context * kv_elements_per_layer(shape, inputs.tp) * bytes_per_element(inputs.kv_dtype);
  op.flops = 2 * real(rank.heads * (qk + value)) * context;
  op.other_bytes = real(rows) * real(rank.heads * (qk + value)) * activation_element_bytes(inputs.weight_dtype);
  return op;
}

// Layers of one kind cost the same, so a model of a hundred layers has one to four groups and as many prices.
std::vector<LayerGroup> layer_groups(const LlmShape& shape) {
  std::vector<LayerGroup> groups;
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
    const LayerKind kind = layer_kind(shape, layer);
    auto it = std::find_if(groups.begin(), groups.end(), [&](const LayerGroup& g) { return g.kind == kind; });
    if (it == groups.end()) it = groups.insert(it, {kind, 0});
    ++it->layers;
  }
  return groups;
}

double expected_experts(std::int32_t experts, std::int32_t experts_per_token, double tokens) {
  // Each token draws its experts without replacement. The probability that all tokens miss an expert is that of one
  // token to the power of their number.
  if (experts_per_token >= experts) return experts;
  // expm1/log1p stay accurate for few tokens and many experts.
  const double miss = std::log1p(-static_cast<double>(experts_per_token) / experts);
  return -experts * std::expm1(tokens * miss);
}

double attention_pairs(PrefillSpan span, std::int64_t window) {
  const double n = real(span.new_tokens), context = real(span.context);
  if (window <= 0 || span.context + span.new_tokens <= window) return n * context + n * (n + 1) / 2;
  const double w = real(window);
  const double growing = std::clamp(w - context, 0.0, n);  // rows whose context is still smaller than the window
  return growing * context + growing * (growing + 1) / 2 + (n - growing) * w;
}

}  // namespace plimsoll::model

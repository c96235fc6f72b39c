// SPDX-License-Identifier: Apache-2.0
// The operations of one forward pass on one TP rank, after fusion. The simulator prices this list and the executor runs
// it, so the two cannot diverge: an op's kind and identity determine what runs, its shape and traffic what it costs.
// Layout by rank: tp_layout.h. Counts and their sources: docs/cost-model.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/accelerator.h"
#include "model/forward_work.h"
#include "model/llm_shape.h"
#include "model/op_id.h"
#include "model/tp_layout.h"

namespace plimsoll::model {

/// What a backend can do in one kernel. The defaults are those of tuned engines.
struct BackendCapabilities {
  bool fused_qkv = true;            // one product for queries, keys and values
  bool fused_gate_up = true;        // one product for both halves of a gated MLP's up projection
  bool fused_residual_norm = true;  // the residual addition is part of the norm that follows
  bool fused_rope_append = true;    // bias, q/k norm, rotation and the append to the cache in one kernel
};

/// What an op computes. This decides how it is priced and executed.
enum class OpKind : std::uint8_t {
  embed,
  norm,
  residual_add,
  gemm,
  moe_gemm,
  rope_append,
  prefill_attention,
  decode_attention,
  activation,
  route,
  combine,
  all_reduce,
  send,
  sample
};
inline constexpr std::size_t kOpKinds = 14;

/// Returns the name of a pointwise kind, such as "norm" or "rope_append"; empty for other kinds.
[[nodiscard]] std::string_view pointwise_kind(OpKind kind);

/// One operation. Flops and bytes are per execution on one rank; a forward executes it `count` times.
struct Op {
  OpKind kind = OpKind::gemm;
  OpId id = OpId::none;       // distinguishes it from the other ops of a layer
  std::int64_t m = 0;         // rows
  std::int64_t n = 0, k = 0;  // gemm: y[m, n] = x[m, k] W[k, n]; for other ops n is the width of a row
  double count = 1;           // executions in one forward: the number of layers in the op's group
  double launches = 1;        // kernels per execution; prefill spans share one launch
  double flops = 0;
  double weight_bytes = 0, kv_bytes = 0, other_bytes = 0;  // read from or written to memory; all_reduce, send: payload
  bool quantised = true;  // gemm: false if weights keep the activations' type (router, LM head)
  double context = 0;     // attention: tokens attended to (decode: sum over the rows)
};

/// Layers of one kind: a forward runs `ops` once for each of them.
struct LayerOps {
  LayerKind kind;
  std::int32_t layers = 0;
  std::vector<Op> ops;
};

/// Executed in this order: `before`, then for each layer the group of layer_kind(shape, layer), then `after`.
struct OpList {
  std::vector<Op> before;
  std::vector<LayerOps> layers;
  std::vector<Op> after;
};

/// Calls visit(op) once for every op; op.count is the number of its executions.
template <class Visit>
void for_each_op(const OpList& list, Visit&& visit) {
  for (const Op& op : list.before) visit(op);
  for (const LayerOps& group : list.layers) {
    for (const Op& op : group.ops) visit(op);
  }
  for (const Op& op : list.after) visit(op);
}

/// Everything besides the work of a step that determines its op list, with the shapes on a rank.
struct OpListInputs {
  const LlmShape* shape = nullptr;
  DType weight_dtype = DType::fp16, kv_dtype = DType::fp16;
  std::int32_t tp = 1, pp = 1;
  BackendCapabilities capabilities;
};

/// Returns the ops of a forward. `tp_problem(shape, tp)` must be empty.
[[nodiscard]] OpList make_op_list(const OpListInputs& inputs, const ForwardWork& work);

// The parts of the list, to price them separately. The first two do not include attention.
// All ops that depend on the number of tokens: embedding, linear layers, pointwise ops, all-reduces, hops.
[[nodiscard]] OpList linear_ops(const OpListInputs& inputs, std::int64_t tokens);
/// Final norm, LM head and sampling of `sampled` rows.
[[nodiscard]] std::vector<Op> head_ops(const OpListInputs& inputs, std::int64_t sampled);
/// Causal attention of one span in one layer. In a windowed layer each row attends to at most sliding_window tokens.
[[nodiscard]] Op prefill_attention_op(const OpListInputs& inputs, PrefillSpan span, bool windowed);
/// Attention of `rows` decoding sequences in one layer; `context` is the sum of their contexts.
[[nodiscard]] Op decode_attention_op(const OpListInputs& inputs, std::int64_t rows, double context);

/// Kinds of layers in order of their first appearance, with the number of layers of each.
struct LayerGroup {
  LayerKind kind;
  std::int32_t layers = 0;
};
/// Returns the groups of a shape's layers.
[[nodiscard]] std::vector<LayerGroup> layer_groups(const LlmShape& shape);

/// Expected number of distinct experts that `tokens` tokens reach if each picks k of E evenly: E (1 - (1 -
/// k/E)^tokens).
[[nodiscard]] double expected_experts(std::int32_t experts, std::int32_t experts_per_token, double tokens);

/// Returns the (query, key) pairs that causal attention computes for a span; window 0: none.
[[nodiscard]] double attention_pairs(PrefillSpan span, std::int64_t window);

}  // namespace plimsoll::model

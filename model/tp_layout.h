// SPDX-License-Identifier: Apache-2.0
// What one rank of a tensor-parallel group holds: its heads, widths, vocabulary rows and matrices (Megatron's layout).
// Weight counts, memory plans and op lists are all derived from the matrices listed here, so they cannot disagree.
#pragma once

#include <cstdint>
#include <vector>

#include "model/llm_shape.h"
#include "model/op_id.h"

namespace plimsoll::model {

/// Sizes on one rank. With tp = 1 they are the model's own.
struct RankShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;             // at least one: KV heads are replicated if there are fewer than ranks
  std::int64_t intermediate = 0;         // MLP width
  std::int64_t expert_intermediate = 0;  // width of one routed expert: TP splits each expert
  std::int64_t shared_intermediate = 0;  // width of all shared experts together
  std::int64_t vocab_rows = 0;           // rows of embedding and LM head, padded to a multiple of 64 per rank if tp > 1
};
/// Returns the sizes on one rank of `tp` ranks. `tp` must divide the shape (tp_problem() in memory_plan.h).
[[nodiscard]] RankShape rank_shape(const LlmShape& shape, std::int32_t tp);

/// A layer attends globally or in a window, and has a dense MLP or experts.
struct LayerKind {
  bool windowed = false, moe = false;
  bool operator==(const LayerKind&) const = default;
};
/// `layer` counts from 0.
[[nodiscard]] LayerKind layer_kind(const LlmShape& shape, std::int32_t layer);

/// Contiguous layers of one pipeline stage; earlier stages get the remainder.
struct LayerRange {
  std::int32_t first = 0, count = 0;
};
/// Returns the layers of a stage; `stage` counts from 0.
[[nodiscard]] LayerRange stage_layers(const LlmShape& shape, std::int32_t pp, std::int32_t stage);

/// One weight matrix on one rank: y[m, n] = x[m, k] W[k, n], `copies` times (experts).
struct Matrix {
  OpId id = OpId::none;
  std::int64_t n = 0, k = 0;
  std::int64_t copies = 1;
  bool quantised = true;   // false: keeps the activations' type even if weights are narrower
  double scale_bytes = 0;  // bytes of the checkpoint's scales per weight, if weights are narrower
  /// Returns the elements of all copies.
  [[nodiscard]] double elements() const {
    return static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(copies);
  }
};
/// Returns the Q, K, V and output projections, in order of use; with multi-head latent attention, the low-rank chain.
[[nodiscard]] std::vector<Matrix> attention_matrices(const LlmShape& shape, std::int32_t tp);
/// Returns the matrices of the MLP, or of the router, shared and routed experts.
[[nodiscard]] std::vector<Matrix> mlp_matrices(const LlmShape& shape, std::int32_t tp, bool moe);

/// Returns the elements of norms and biases in one layer on one rank.
[[nodiscard]] double layer_vector_elements(const LlmShape& shape, std::int32_t tp);
/// Returns the elements of the biases of the router and of `experts` experts, on one rank.
[[nodiscard]] double expert_vector_elements(const LlmShape& shape, std::int32_t tp, std::int32_t experts);
/// Returns whether one norm covers the queries of all heads and another their keys, instead of one norm per head.
[[nodiscard]] bool has_wide_qk_norm(const LlmShape& shape);
/// Returns the norms before a layer's sublayers (and after them in Gemma 2); parallel attention may share one.
[[nodiscard]] std::int32_t norms_per_layer(const LlmShape& shape);

/// Returns the KV elements that one token adds to one layer on one rank.
[[nodiscard]] double kv_elements_per_layer(const LlmShape& shape, std::int32_t tp);

/// Returns the bytes of an activation, norm weight or embedding element: 4 with fp32 weights, else 2.
[[nodiscard]] double activation_element_bytes(DType weight_dtype);
/// Returns the bytes of one matrix on this rank.
[[nodiscard]] double matrix_bytes(const Matrix& matrix, DType weight_dtype);

}  // namespace plimsoll::model

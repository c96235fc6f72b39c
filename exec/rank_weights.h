// SPDX-License-Identifier: Apache-2.0
// One rank's share of a model's weights, in its backend's packing (Megatron's layout: docs/executor.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/backend.h"
#include "exec/weights/weights.h"

namespace plimsoll::exec {

struct RankPlace {
  std::int32_t rank = 0, tp = 1;
};

struct LayerWeights {
  NormSpec input_norm, mlp_norm;
  NormSpec post_attention_norm, post_mlp_norm;  // of models with norms after the sublayers
  RopeSpec rope;
  std::unique_ptr<Linear> qkv, attention_out, up, down;    // `up` of a gated MLP: gate, then up
  std::unique_ptr<Linear> router, expert_up, expert_down;  // only in mixtures of experts
  std::unique_ptr<Linear> shared_gate, shared_up, shared_down;
  std::unique_ptr<Linear> q_down, q_up, kv_down, latent_keys, latent_values;  // latent attention; q_up may be the only
  NormSpec q_latent_norm, kv_latent_norm;                                     // matrix of queries
  const Vector* sinks = nullptr;
  const Vector* router_bias = nullptr;
  const Vector* router_choice_bias = nullptr;
  const Vector* expert_up_bias = nullptr;      // [experts, 2 width], gate first
  const Vector* expert_down_bias = nullptr;    // [experts, hidden], on rank 0 only
  const Vector* attention_out_bias = nullptr;  // on rank 0 only, as is down_bias: added once
  const Vector* up_bias = nullptr;
  const Vector* down_bias = nullptr;
};

/// A rank's share of all weights, in the layout of its backend.
struct RankWeights {
  std::unique_ptr<Linear> embedding;  // this rank's rows of the vocabulary
  std::unique_ptr<Linear> positions;  // learned positions; on rank 0 only
  std::unique_ptr<Linear> own_head;   // null if the embedding is also the head
  const Vector* head_bias = nullptr;
  NormSpec final_norm;
  std::vector<LayerWeights> layers;
  std::vector<std::unique_ptr<Vector>> vectors;  // own what the raw pointers point to
  [[nodiscard]] const Linear& head() const { return own_head ? *own_head : *embedding; }
};

/// Reads the rank's slices from the source and packs them. Throws InputError and DeviceError.
[[nodiscard]] RankWeights load_rank(Backend& backend, const model::Architecture& architecture,
                                    const WeightSource& source, RankPlace place);

/// Returns why ranks cannot share the columns of integer weights: a group would be cut, or the columns of groups are
/// scattered. Empty if they can, and for weights that are floats.
[[nodiscard]] std::string split_problem(const model::Architecture& architecture, model::DType weight_dtype,
                                        const WeightSource& source, std::int32_t tp);

}  // namespace plimsoll::exec

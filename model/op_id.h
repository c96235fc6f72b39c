// SPDX-License-Identifier: Apache-2.0
// The identity of each op and weight matrix of a forward pass. Code compares identities; the names are for outputs and
// files only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::model {

/// Unique among the ops of one layer, except that a layer has one prefill_attention for each prefill span.
enum class OpId : std::uint8_t {
  none,
  embed,
  embedding_all_reduce,
  stage_send,
  input_norm,
  residual_add,
  qkv,
  q,
  k,
  v,
  q_down,
  q_up,
  q_norm,
  kv_down,
  kv_up,
  kv_norm,
  qk_norm,
  rope,
  append,
  rope_append,
  prefill_attention,
  decode_attention,
  attention_out,
  attention_all_reduce,
  post_attention_norm,
  mlp_norm,
  gate_up,
  gate,
  up,
  activation,
  down,
  router,
  shared_gate,
  shared_gate_up,
  shared_up,
  shared_activation,
  shared_down,
  route,
  expert_gate_up,
  expert_up,
  expert_activation,
  expert_down,
  combine,
  mlp_all_reduce,
  layer_all_reduce,
  post_mlp_norm,
  final_norm,
  lm_head,
  sample,
  sample_exchange
};

/// Returns the name, spelled like the enumerator: "qkv", "mlp_all_reduce". Empty for `none`.
[[nodiscard]] std::string_view name(OpId id);
/// Returns the identity with this name, or nullopt if no op has it.
[[nodiscard]] std::optional<OpId> op_id(std::string_view name);

}  // namespace plimsoll::model

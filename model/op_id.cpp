// SPDX-License-Identifier: Apache-2.0
#include "model/op_id.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace plimsoll::model {
namespace {

struct Named {
  OpId id;
  std::string_view name;
};

constexpr std::array kOps = {Named{OpId::none, ""},
                             Named{OpId::embed, "embed"},
                             Named{OpId::embedding_all_reduce, "embedding_all_reduce"},
                             Named{OpId::stage_send, "stage_send"},
                             Named{OpId::input_norm, "input_norm"},
                             Named{OpId::residual_add, "residual_add"},
                             Named{OpId::qkv, "qkv"},
                             Named{OpId::q, "q"},
                             Named{OpId::k, "k"},
                             Named{OpId::v, "v"},
                             Named{OpId::q_down, "q_down"},
                             Named{OpId::q_up, "q_up"},
                             Named{OpId::q_norm, "q_norm"},
                             Named{OpId::kv_down, "kv_down"},
                             Named{OpId::kv_up, "kv_up"},
                             Named{OpId::kv_norm, "kv_norm"},
                             Named{OpId::qk_norm, "qk_norm"},
                             Named{OpId::rope, "rope"},
                             Named{OpId::append, "append"},
                             Named{OpId::rope_append, "rope_append"},
                             Named{OpId::prefill_attention, "prefill_attention"},
                             Named{OpId::decode_attention, "decode_attention"},
                             Named{OpId::attention_out, "attention_out"},
                             Named{OpId::attention_all_reduce, "attention_all_reduce"},
                             Named{OpId::post_attention_norm, "post_attention_norm"},
                             Named{OpId::mlp_norm, "mlp_norm"},
                             Named{OpId::gate_up, "gate_up"},
                             Named{OpId::gate, "gate"},
                             Named{OpId::up, "up"},
                             Named{OpId::activation, "activation"},
                             Named{OpId::down, "down"},
                             Named{OpId::router, "router"},
                             Named{OpId::shared_gate, "shared_gate"},
                             Named{OpId::shared_gate_up, "shared_gate_up"},
                             Named{OpId::shared_up, "shared_up"},
                             Named{OpId::shared_activation, "shared_activation"},
                             Named{OpId::shared_down, "shared_down"},
                             Named{OpId::route, "route"},
                             Named{OpId::expert_gate_up, "expert_gate_up"},
                             Named{OpId::expert_up, "expert_up"},
                             Named{OpId::expert_activation, "expert_activation"},
                             Named{OpId::expert_down, "expert_down"},
                             Named{OpId::combine, "combine"},
                             Named{OpId::mlp_all_reduce, "mlp_all_reduce"},
                             Named{OpId::layer_all_reduce, "layer_all_reduce"},
                             Named{OpId::post_mlp_norm, "post_mlp_norm"},
                             Named{OpId::final_norm, "final_norm"},
                             Named{OpId::lm_head, "lm_head"},
                             Named{OpId::sample, "sample"},
                             Named{OpId::sample_exchange, "sample_exchange"}};

constexpr bool in_order_of_the_enum() {
  for (std::size_t i = 0; i < kOps.size(); ++i) {
    if (static_cast<std::size_t>(kOps[i].id) != i) return false;
  }
  return kOps.back().id == OpId::sample_exchange;
}
static_assert(in_order_of_the_enum(), "name() looks an identity up by its value");

}  // namespace

std::string_view name(OpId id) { return kOps[static_cast<std::size_t>(id)].name; }

std::optional<OpId> op_id(std::string_view name) {
  if (name.empty()) return std::nullopt;
  const auto* const found = std::find_if(kOps.begin(), kOps.end(), [&](const Named& op) { return op.name == name; });
  return found == kOps.end() ? std::nullopt : std::optional(found->id);
}

}  // namespace plimsoll::model

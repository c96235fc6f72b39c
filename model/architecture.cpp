// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "model/tp_layout.h"

namespace plimsoll::model {
namespace {

// The first name of each function is ours. gelu_fast, gelu_accurate and gelu_pytorch_tanh are the same formula.
constexpr std::array<std::pair<std::string_view, Activation>, 13> kActivationNames{
    {{"silu", Activation::silu},
     {"gelu", Activation::gelu},
     {"gelu_tanh", Activation::gelu_tanh},
     {"relu", Activation::relu},
     {"relu2", Activation::relu2},
     {"clamped_swiglu", Activation::clamped_swiglu},
     {"swish", Activation::silu},
     {"gelu_python", Activation::gelu},
     {"gelu_new", Activation::gelu_tanh},
     {"gelu_fast", Activation::gelu_tanh},
     {"gelu_accurate", Activation::gelu_tanh},
     {"gelu_pytorch_tanh", Activation::gelu_tanh},
     {"gelu_python_tanh", Activation::gelu_tanh}}};

// Llama, Mistral, Phi-3 and the families with layer norms were published with 1e-5.
double usual_epsilon(const LlmShape& shape) {
  return shape.family.starts_with("qwen") || shape.family.starts_with("deepseek") || shape.family.starts_with("gemma")
             ? 1e-6
             : 1e-5;
}

Rope usual_rope(const LlmShape& shape) {
  Rope rope;
  if (shape.rope_base > 0) rope.base = shape.rope_base;
  rope.interleaved = shape.family == "gptj" || shape.family == "glm" || shape.family == "glm4" || shape.mla;
  if (shape.mla)
    rope.rotary_dim = shape.mla->qk_rope_head_dim;
  else if (!shape.learned_positions)
    rope.rotary_dim = shape.rotary_dim > 0 ? shape.rotary_dim : shape.head_dim;
  return rope;
}

// As published; read_hf_architecture() reads what a file states.
Routing usual_routing(const LlmShape& shape) {
  Routing routing;
  if (!shape.moe) return routing;
  const bool v3 = shape.family == "deepseek_v3";
  routing.sigmoid = routing.choice_bias = v3 || shape.family == "glm4_moe" || shape.family == "minimax_m2";
  routing.normalised = shape.family != "deepseek_v2" && !shape.family.starts_with("qwen2");
  routing.logit_bias = shape.family == "gpt_oss";
  if (v3) {
    routing.scale = 2.5;
    routing.group_best = 2;
    if (shape.moe->experts % 8 == 0 && shape.moe->experts / 2 >= shape.moe->experts_per_token) {
      routing.groups = 8;
      routing.open_groups = 4;
    }
  }
  return routing;
}

std::string routing_problem(const Architecture& a) {
  const Routing& r = a.routing;
  const std::int32_t experts = a.shape.moe->experts;
  if (r.groups < 1 || experts % r.groups != 0 || r.open_groups < 1 || r.open_groups > r.groups)
    return fmt::format(
        "{} experts in {} groups, {} of them open, are not executed: groups must be equal and 1 or more open", experts,
        r.groups, r.open_groups);
  const std::int32_t in_group = experts / r.groups;
  if (r.groups > 1 && (in_group < r.group_best || r.open_groups * in_group < a.shape.moe->experts_per_token))
    return fmt::format("{} experts per token from {} groups of {} are not executed: the groups have too few",
                       a.shape.moe->experts_per_token, r.open_groups, in_group);
  return {};
}

std::string expert_problem(const Architecture& a) {
  const LlmShape& shape = a.shape;
  if (!shape.moe) return {};
  if (!shape.gated_mlp) return "experts without a gate are simulated but not executed";
  if (shape.parallel_attention) return "experts beside parallel attention are not executed";
  if (a.mlp_bias) return "biases of dense layers beside experts are not executed";
  return routing_problem(a);
}

std::string rope_problem(const Architecture& architecture) {
  const Rope& rope = architecture.rope;
  const LlmShape& shape = architecture.shape;
  const std::int32_t head = shape.mla ? shape.mla->qk_rope_head_dim : shape.head_dim;
  if (rope.rotary_dim % 2 != 0 || rope.rotary_dim < 0 || rope.rotary_dim > head)
    return fmt::format("{} rotary dimensions are not executed, allowed: an even number up to the {} of a head",
                       rope.rotary_dim, head);
  if (rope.rotary_dim == 0 && !shape.learned_positions) return "a model without position embeddings is not executed";
  if (!(rope.base > 0)) return "a rotary base that is not positive is not executed";
  return {};
}

}  // namespace

const char* name(Activation activation) {
  for (const auto& [text, value] : kActivationNames) {
    if (value == activation) return text.data();
  }
  return "";
}

std::optional<Activation> activation_from_name(std::string_view name) {
  for (const auto& [text, value] : kActivationNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

Architecture default_architecture(const LlmShape& shape) {
  Architecture a;
  a.shape = shape;
  a.norm_epsilon = usual_epsilon(shape);
  a.activation = activation_from_name(shape.activation).value_or(Activation::silu);
  a.rope = usual_rope(shape);
  const bool opt = shape.family == "opt", gptj = shape.family == "gptj", falcon = shape.family == "falcon";
  // In OPT and Falcon one flag enables the biases of all matrices; in Llama and Qwen3 only those of attention.
  const bool all = (opt || falcon) && shape.qkv_bias;
  bool attention = false;
  for (const std::string_view family :
       {"llama", "qwen3", "granite", "smollm3", "olmo2", "gemma2", "gemma3", "gpt_oss", "nemotron"})
    attention = attention || shape.family == family;
  a.attention_out_bias = all || (shape.qkv_bias && attention);
  a.mlp_bias = all || gptj;
  a.lm_head_bias = gptj;
  a.norm_bias = shape.norm == Norm::layernorm;
  a.position_offset = opt ? 2 : 0;
  if (shape.family.starts_with("gemma")) {
    a.embedding_scale = std::sqrt(static_cast<double>(shape.hidden));
    a.norm_from_one = true;
  }
  a.norms_only_after = shape.family == "olmo2";
  if (shape.family == "nemotron") a.norm_from_one = true;
  a.routing = usual_routing(shape);
  a.sinks = a.expert_bias = shape.family == "gpt_oss";
  if (shape.family == "gpt_oss") a.activation = Activation::clamped_swiglu;
  if (shape.mla) a.attention_scale = 1 / std::sqrt(shape.mla->qk_nope_head_dim + shape.mla->qk_rope_head_dim + 0.0);
  if (shape.family == "gemma2") {
    a.attention_cap = 50;
    a.logit_cap = 30;
  }
  if (shape.family == "gemma3" && shape.sliding_window > 0) {
    a.window_rope = a.rope;
    a.window_rope->base = 10'000;
  }
  return a;
}

Rope rope_of(const Architecture& architecture, std::int32_t layer) {
  Rope rope = architecture.rope;
  if (architecture.window_rope && layer_kind(architecture.shape, layer).windowed) rope = *architecture.window_rope;
  const auto place = static_cast<std::size_t>(layer);
  if (place < architecture.layers_unrotated.size() && architecture.layers_unrotated[place] != 0) rope.rotary_dim = 0;
  return rope;
}

std::string cpu_only_part(const Architecture& a) {
  if (a.shape.mla) return "multi-head latent attention";
  if (!a.shape.moe || (a.routing.groups == 1 && (!a.routing.choice_bias || a.routing.sigmoid))) return {};
  return "this routing to experts";
}

std::string execution_problem(const Architecture& architecture) {
  const LlmShape& shape = architecture.shape;
  if (shape.family == "llama4") return "models of the family llama4 are simulated but not executed";
  if (!activation_from_name(shape.activation))
    return fmt::format("the activation '{}' is not executed, silu, gelu, gelu_tanh, relu and relu2 are",
                       shape.activation);
  if (std::string problem = expert_problem(architecture); !problem.empty()) return problem;
  return rope_problem(architecture);
}

}  // namespace plimsoll::model

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
constexpr std::array<std::pair<std::string_view, Activation>, 11> kActivationNames{
    {{"silu", Activation::silu},
     {"gelu", Activation::gelu},
     {"gelu_tanh", Activation::gelu_tanh},
     {"relu", Activation::relu},
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
  rope.interleaved = shape.family == "gptj" || shape.family == "glm" || shape.family == "glm4";
  if (!shape.learned_positions) rope.rotary_dim = shape.rotary_dim > 0 ? shape.rotary_dim : shape.head_dim;
  return rope;
}

std::string expert_problem(const LlmShape& shape) {
  if (!shape.moe) return {};
  if (shape.moe->shared_experts > 0) return "shared experts are simulated but not executed";
  if (!shape.gated_mlp) return "experts without a gate are simulated but not executed";
  if (shape.parallel_attention) return "experts beside parallel attention are not executed";
  return {};
}

std::string rope_problem(const Architecture& architecture) {
  const Rope& rope = architecture.rope;
  if (rope.rotary_dim % 2 != 0 || rope.rotary_dim < 0 || rope.rotary_dim > architecture.shape.head_dim)
    return fmt::format("{} rotating dimensions of {} a head are not executed, an even number up to all of them is",
                       rope.rotary_dim, architecture.shape.head_dim);
  if (rope.rotary_dim == 0 && !architecture.shape.learned_positions) return "a model without positions is not executed";
  if (!(rope.base > 0)) return "a base of the rotation that is not positive is not executed";
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
  for (const std::string_view family : {"llama", "qwen3", "granite", "smollm3", "olmo2", "gemma2", "gemma3"})
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
  if (a.attention_cap > 0 || a.logit_cap > 0) return "soft-capped scores";
  if (norms_per_layer(a.shape) == 4 || a.norms_only_after) return "norms after the sublayers";
  if (a.embedding_scale != 1 || a.residual_scale != 1 || a.attention_scale != 0 || a.logit_scale != 1)
    return "scaled embeddings, residuals or logits";
  if (a.window_rope || !a.layers_unrotated.empty()) return "rotations that differ between layers";
  if (a.rope.scaling == RopeScaling::yarn) return "YaRN";
  return a.rope.scaling == RopeScaling::longrope ? "LongRoPE" : "";
}

std::string execution_problem(const Architecture& architecture) {
  const LlmShape& shape = architecture.shape;
  if (shape.mla) return "multi-head latent attention is simulated but not executed";
  for (const std::string_view family : {"gpt_oss", "glm4_moe", "llama4", "minimax_m2", "nemotron"})
    if (shape.family == family) return fmt::format("models of the family {} are simulated but not executed", family);
  if (!activation_from_name(shape.activation))
    return fmt::format("the activation '{}' is not executed, silu, gelu, gelu_tanh and relu are", shape.activation);
  if (std::string problem = expert_problem(shape); !problem.empty()) return problem;
  if (shape.moe && architecture.mlp_bias) return "biases of experts are not executed";
  return rope_problem(architecture);
}

}  // namespace plimsoll::model

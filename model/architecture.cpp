// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.h"

#include <fmt/format.h>

#include <array>
#include <utility>

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
  rope.interleaved = shape.family == "gptj";
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
  a.attention_out_bias = all || (shape.qkv_bias && (shape.family == "llama" || shape.family == "qwen3"));
  a.mlp_bias = all || gptj;
  a.lm_head_bias = gptj;
  a.norm_bias = shape.norm == Norm::layernorm;
  a.position_offset = opt ? 2 : 0;
  return a;
}

std::string execution_problem(const Architecture& architecture) {
  const LlmShape& shape = architecture.shape;
  if (shape.mla) return "multi-head latent attention is simulated but not executed";
  if (shape.family.starts_with("gemma"))
    return "Gemma (soft-capped logits, scaled embeddings, norms after the sublayers) is simulated but not executed";
  for (const std::string_view family : {"gpt_oss", "glm", "glm4", "glm4_moe", "llama4", "minimax_m2", "nemotron"})
    if (shape.family == family) return fmt::format("models of the family {} are simulated but not executed", family);
  if (!activation_from_name(shape.activation))
    return fmt::format("the activation '{}' is not executed, silu, gelu, gelu_tanh and relu are", shape.activation);
  if (std::string problem = expert_problem(shape); !problem.empty()) return problem;
  if (shape.moe && architecture.mlp_bias) return "biases of experts are not executed";
  return rope_problem(architecture);
}

}  // namespace plimsoll::model

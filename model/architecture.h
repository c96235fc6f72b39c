// SPDX-License-Identifier: Apache-2.0
// What running a transformer requires besides its shape: constants, and variants that cost no extra time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/llm_shape.h"

namespace plimsoll::model {

/// silu, gelu (with erf), gelu_tanh (also gelu_new), relu, relu2 (its square), clamped_swiglu (gpt-oss: of a gate and
/// an up value, both clamped; see ClampedSwiglu).
enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu, relu2, clamped_swiglu };
[[nodiscard]] const char* name(Activation activation);
/// Finds an activation by our name or any name in transformers; nullopt if it is not supported.
[[nodiscard]] std::optional<Activation> activation_from_name(std::string_view name);

/// How frequencies are scaled for contexts longer than those of the training. Formulas: transformers,
/// modeling_rope_utils.py.
enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn, longrope };

/// Rotary position embedding.
struct Rope {
  double base = 10'000;
  std::int32_t rotary_dim = 0;  // leading dimensions of a head that are rotated; 0: none (learned positions)
  bool interleaved = false;     // pairs (2i, 2i + 1) as in GPT-J; false: (i, i + rotary_dim / 2)
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;  // llama3 uses all three, linear and yarn the first
  std::int32_t original_max_position = 8192;                     // used by llama3 and yarn
  double beta_fast = 32, beta_slow = 1;                          // yarn: rotations at which the blend begins and ends
  bool whole_dimensions = true;                                  // yarn: rounds the blend's ends to whole dimensions
  std::vector<double> factors = {};                              // longrope: of each pair, for short contexts
  double magnitude = 1;                                          // yarn, longrope: of sines and cosines

  bool operator==(const Rope&) const = default;
};

/// How a router's logits choose experts, and with which weights.
struct Routing {
  bool sigmoid = false;          // scores are sigmoids of the logits; false: their softmax over all experts
  bool normalised = true;        // the weights of the chosen experts are divided by their sum
  bool logit_bias = false;       // a bias is added to the logits (gpt-oss)
  bool choice_bias = false;      // a bias is added to the scores for the choice, not for the weights (DeepSeek V3)
  std::int32_t groups = 1;       // of adjacent experts, all equal; experts are chosen from the best groups
  std::int32_t open_groups = 1;  // eligible groups
  std::int32_t group_best = 1;   // a group's score is the sum of this many of its best scores
  double scale = 1;              // of the weights

  bool operator==(const Routing&) const = default;
};

/// The constants of Activation::clamped_swiglu: with g = min(gate, limit) and u = up clamped to +-limit, the result is
/// (u + 1) g / (1 + e^(-alpha g)).
struct ClampedSwiglu {
  double limit = 7, alpha = 1.702;
  bool operator==(const ClampedSwiglu&) const = default;
};

/// A shape with the constants and variants needed to compute its results.
struct Architecture {
  LlmShape shape;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::silu;
  Rope rope;
  bool attention_out_bias = false, mlp_bias = false, lm_head_bias = false;  // qkv_bias is part of the shape
  bool norm_bias = false;                                                   // layernorm has a bias
  std::int32_t position_offset = 0;  // rows of the position table before position 0 (OPT: 2)

  double embedding_scale = 1;                  // of the rows that tokens read, not of a tied head
  double residual_scale = 1;                   // of what attention and MLP add to the residual
  double attention_scale = 0;                  // of the scores; 0: 1 / sqrt(head_dim)
  double attention_cap = 0, logit_cap = 0;     // x becomes cap tanh(x / cap); 0: unchanged
  double logit_scale = 1;                      // of the logits, before the cap
  bool norm_from_one = false;                  // norms multiply by 1 + weight
  bool norms_only_after = false;               // the two norms of a layer follow the sublayers (OLMo 2)
  std::optional<Rope> window_rope;             // of layers with a window, if it is another one
  std::vector<std::uint8_t> layers_unrotated;  // by layer, 1: without rotation; empty: none
  Routing routing;                             // of a mixture of experts
  ClampedSwiglu clamped_swiglu;
  bool expert_bias = false;      // the matrices of experts have biases
  bool sinks = false;            // a learned score of each head takes part in the softmax, without a value
  double latent_epsilon = 1e-6;  // of the norms of latents in multi-head latent attention
};

/// Returns the rotation in a layer; its rotary_dim is 0 if the layer has none.
[[nodiscard]] Rope rope_of(const Architecture& architecture, std::int32_t layer);
/// Returns the part that only the CPU executor computes ("soft-capped scores"); empty if every device can run the
/// model.
[[nodiscard]] std::string cpu_only_part(const Architecture& architecture);

/// Returns the usual constants of the shape's family, for catalogue models and for fields missing in a config.json.
[[nodiscard]] Architecture default_architecture(const LlmShape& shape);
/// Returns why the executor cannot run the model ("multi-head latent attention is simulated but not executed"); empty
/// if it can.
[[nodiscard]] std::string execution_problem(const Architecture& architecture);

}  // namespace plimsoll::model

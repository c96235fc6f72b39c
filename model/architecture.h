// SPDX-License-Identifier: Apache-2.0
// What running a transformer takes beyond its shape: constants and variants that cost nothing but change the numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/llm_shape.h"

namespace plimsoll::model {

/// silu, gelu (with erf), gelu_tanh (also gelu_new), relu.
enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu };
[[nodiscard]] const char* name(Activation activation);
/// By our name or any that transformers has for the same function; nullopt for one that is not computed.
[[nodiscard]] std::optional<Activation> activation_from_name(std::string_view name);

/// How frequencies are stretched for contexts beyond the training's. Formulas: transformers, modeling_rope_utils.py.
enum class RopeScaling : std::uint8_t { none, linear, llama3 };

struct Rope {
  double base = 10'000;
  std::int32_t rotary_dim = 0;  // leading dimensions of a head that rotate; 0: none (learned positions)
  bool interleaved = false;     // pairs (2i, 2i + 1) as in GPT-J; else (i, i + rotary_dim / 2)
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;  // llama3 uses all, linear the first
  std::int32_t original_max_position = 8192;                     // llama3

  bool operator==(const Rope&) const = default;
};

/// What the executor must know of a family beyond the shape.
struct Architecture {
  LlmShape shape;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::silu;
  Rope rope;
  bool attention_out_bias = false, mlp_bias = false, lm_head_bias = false;  // qkv_bias is part of the shape
  bool norm_bias = false;                                                   // layernorm with a bias
  std::int32_t position_offset = 0;  // rows of the position table before position 0 (OPT: 2)
};

/// The usual constants of the shape's family. They hold for catalogue models, and where a config.json states none.
[[nodiscard]] Architecture default_architecture(const LlmShape& shape);
/// Empty if the executor can run it, else why not ("multi-head latent attention is simulated but not executed").
[[nodiscard]] std::string execution_problem(const Architecture& architecture);

}  // namespace plimsoll::model

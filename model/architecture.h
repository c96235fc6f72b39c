// SPDX-License-Identifier: Apache-2.0
// Everything besides the shape that running a transformer needs: constants and variants that cost no extra time.
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
/// Finds an activation by our name or any name in transformers; nullopt if it is not supported.
[[nodiscard]] std::optional<Activation> activation_from_name(std::string_view name);

/// How frequencies are scaled for contexts beyond the training's. Formulas: transformers, modeling_rope_utils.py.
enum class RopeScaling : std::uint8_t { none, linear, llama3 };

/// Rotary position embedding.
struct Rope {
  double base = 10'000;
  std::int32_t rotary_dim = 0;  // leading dimensions of a head that are rotated; 0: none (learned positions)
  bool interleaved = false;     // pairs (2i, 2i + 1) as in GPT-J; false: (i, i + rotary_dim / 2)
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;  // llama3 uses all three, linear only the first
  std::int32_t original_max_position = 8192;                     // used by llama3

  bool operator==(const Rope&) const = default;
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
};

/// Returns the usual constants of the shape's family, for catalogue models and for fields missing in a config.json.
[[nodiscard]] Architecture default_architecture(const LlmShape& shape);
/// Returns why the executor cannot run it ("multi-head latent attention is simulated but not executed"), if it cannot.
[[nodiscard]] std::string execution_problem(const Architecture& architecture);

}  // namespace plimsoll::model

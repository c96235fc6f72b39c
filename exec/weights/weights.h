// SPDX-License-Identifier: Apache-2.0
// The source of a model's weights. Tensors are identified by their role and addressed by UNSHARDED indices, so every TP
// degree computes the same model. How a file fuses or splits them is hidden by the source.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/weights/integers.h"
#include "model/architecture.h"

namespace plimsoll::exec {

/// Matrices are [rows = outputs, columns = inputs]; vectors are [rows, 1].
enum class TensorKind : std::uint8_t {
  token_embedding,     // [vocab, hidden]
  position_embedding,  // [max_position, hidden], without the rows of OPT's offset
  lm_head,
  lm_head_bias,  // [vocab, hidden], [vocab]; tied models read token_embedding instead
  final_norm,
  final_norm_bias,  // [hidden]
  input_norm,
  input_norm_bias,
  mlp_norm,
  mlp_norm_bias,
  q,
  k,
  v,  // [heads or kv_heads * head_dim, hidden], heads in order, rows in rope's order
  q_bias,
  k_bias,
  v_bias,
  q_norm,
  k_norm,  // [head_dim]
  attention_out,
  attention_out_bias,  // [hidden, heads * head_dim], [hidden]
  gate,
  up,
  down,  // [intermediate, hidden] twice, [hidden, intermediate]; plain MLPs have no gate
  gate_bias,
  up_bias,
  down_bias,
  router,  // [experts, hidden]
  expert_gate,
  expert_up,
  expert_down,  // as gate, up, down, of one expert
  post_attention_norm,
  post_mlp_norm,  // [hidden], applied to a sublayer's output
  // Multi-head latent attention: q is [heads * (nope + rope), hidden] or comes from a latent. The rows of kv_up are
  // those of keys (nope), then of values, head by head. attention_out is [hidden, heads * v_head_dim].
  q_down,
  q_latent_norm,
  q_up,  // [q_lora_rank, hidden], [q_lora_rank], [heads * (nope + rope), q_lora_rank]
  kv_down,
  kv_latent_norm,
  kv_up,  // [kv_lora_rank + rope, hidden], [kv_lora_rank], [heads * (nope + v), kv_lora_rank]
  sinks,  // [heads]
  router_bias,
  router_choice_bias,  // [experts]
  shared_expert_gate,  // [1, hidden]
  shared_gate,
  shared_up,
  shared_down,  // as gate, up, down, of the shared experts together
  expert_gate_bias,
  expert_up_bias,
  expert_down_bias  // [intermediate] twice, [hidden], of one expert
};
/// Returns whether a model has one such tensor per expert.
[[nodiscard]] inline bool is_of_expert(TensorKind kind) {
  return (kind >= TensorKind::expert_gate && kind <= TensorKind::expert_down) || kind >= TensorKind::expert_gate_bias;
}
/// Returns whether it is the weight of a norm.
[[nodiscard]] bool is_norm(TensorKind kind);
[[nodiscard]] const char* name(TensorKind kind);

struct TensorRef {
  TensorKind kind = TensorKind::token_embedding;
  std::int32_t layer = -1, expert = -1;
  bool operator==(const TensorRef&) const = default;
};
/// Returns "layer 3 expert 1 expert_up", for messages.
[[nodiscard]] std::string describe(const TensorRef& tensor);

struct TensorShape {
  std::int64_t rows = 0, columns = 1;
};
/// Returns the unsharded shape.
[[nodiscard]] TensorShape shape_of(const model::Architecture& architecture, const TensorRef& tensor);

/// A rectangle of a tensor: `rows` rows from `row` on, and of each `columns` columns from `column` on.
struct TensorSlice {
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 1;
};

/// Any number of threads may read concurrently.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// out[r * columns + c] = tensor[row + r, column + c] in f32. Throws InputError, naming the tensor.
  virtual void read(const TensorRef& tensor, const TensorSlice& slice, float* out) const = 0;
  /// Returns how the files hold the tensor's integers; nullopt if they hold floats. read() works in both cases.
  [[nodiscard]] virtual std::optional<IntegerFormat> integers(const TensorRef&) const { return {}; }
  /// Reads the integers of such a tensor. The slice begins and ends with a group, unless rows are groups; with
  /// IntegerFormat::order it has all columns, in that order.
  virtual void read_integers(const TensorRef& tensor, const TensorSlice& slice, const IntegerRows& out) const;
  /// Checks, before anything is loaded, that every tensor of the model exists with its shape. Throws InputError.
  virtual void check(const model::Architecture& architecture) const = 0;
};

/// Returns weights close to N(0, 0.02), a function of (seed, tensor, element index) only; the factors of
/// norms are 1 + such a number.
[[nodiscard]] std::unique_ptr<WeightSource> random_weights(const model::Architecture& architecture, std::uint64_t seed);
/// Opens a .safetensors file, a *.safetensors.index.json, or a folder that contains one of them; memory-mapped. Throws
/// InputError, naming the tensor, if a file is truncated, mislabelled or hostile.
[[nodiscard]] std::unique_ptr<WeightSource> safetensors_weights(const model::Architecture& architecture,
                                                                const std::string& path);

}  // namespace plimsoll::exec

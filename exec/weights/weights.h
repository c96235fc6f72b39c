// SPDX-License-Identifier: Apache-2.0
// Where weights come from. Tensors are named by what they are and addressed by their UNSHARDED indices, so that every
// TP degree computes the same model; how a file fuses or splits them is the source's business.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/architecture.h"

namespace plimsoll::exec {

/// Matrices are [rows = outputs, columns = inputs]; vectors are [rows, 1].
enum class TensorKind : std::uint8_t {
  token_embedding,     // [vocab, hidden]
  position_embedding,  // [max_position, hidden], without the offset's rows (OPT)
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
  v,  // [heads or kv_heads * head_dim, hidden], heads in order, rows as rope expects them
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
  expert_down  // as gate, up, down, of one expert
};
[[nodiscard]] const char* name(TensorKind kind);

struct TensorRef {
  TensorKind kind = TensorKind::token_embedding;
  std::int32_t layer = -1, expert = -1;
  bool operator==(const TensorRef&) const = default;
};
/// "layer 3 expert 1 expert_up", for messages.
[[nodiscard]] std::string describe(const TensorRef& tensor);

struct TensorShape {
  std::int64_t rows = 0, columns = 1;
};
/// Unsharded.
[[nodiscard]] TensorShape shape_of(const model::Architecture& architecture, const TensorRef& tensor);

/// Any number of threads may read at once.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// out[r * columns + c] = tensor[row + r, column + c] in f32. Throws InputError naming the tensor.
  virtual void read(const TensorRef& tensor, std::int64_t row, std::int64_t rows, std::int64_t column,
                    std::int64_t columns, float* out) const = 0;
  /// Checks before anything is loaded that every tensor of the model is there with its shape. Throws InputError.
  virtual void check(const model::Architecture& architecture) const = 0;
};

/// N(0, 0.02)-like numbers, a function of (seed, tensor, element index) only; norms are 1 + the same.
[[nodiscard]] std::unique_ptr<WeightSource> random_weights(const model::Architecture& architecture, std::uint64_t seed);
/// A .safetensors file, a *.safetensors.index.json, or a folder that holds one of them; memory-mapped.
/// Throws InputError for a file that is truncated, mislabelled or hostile, with the tensor's name.
[[nodiscard]] std::unique_ptr<WeightSource> safetensors_weights(const model::Architecture& architecture,
                                                                const std::string& path);

}  // namespace plimsoll::exec

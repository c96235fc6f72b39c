// SPDX-License-Identifier: Apache-2.0
// The shape of a transformer: everything that determines its weights, its KV cache and the cost of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace plimsoll::model {

/// nvfp4: 4-bit floats with an fp8 scale per 16 elements; mxfp4: with an 8-bit exponent per 32.
enum class DType : std::uint8_t { fp32, fp16, bf16, fp8, int8, int4, nvfp4, mxfp4 };
inline constexpr DType kLastDType = DType::mxfp4;
/// Returns the bytes per element: 0.5 for int4, 0.5 plus the scales for nvfp4 and mxfp4.
[[nodiscard]] double bytes_per_element(DType dtype);
[[nodiscard]] const char* name(DType dtype);
/// Returns nullopt for an unknown name.
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);

enum class Norm : std::uint8_t { rmsnorm, layernorm };

/// Mixture of experts in the layers from first_dense_layers on.
struct MoeShape {
  std::int32_t experts = 0;  // routed experts per layer
  std::int32_t experts_per_token = 0;
  std::int32_t shared_experts = 0;       // always active; as large as a routed expert
  std::int32_t intermediate = 0;         // width of one expert
  std::int32_t first_dense_layers = 0;   // these use LlmShape::intermediate
  std::int32_t period = 1;               // experts are in layers period - 1, 2 period - 1 …; the others are dense
  std::int32_t shared_intermediate = 0;  // width of the shared experts together; 0: shared_experts * intermediate
  bool shared_gate = false;              // a learned gate scales the output of the shared experts (Qwen2-MoE)
  bool operator==(const MoeShape&) const = default;
};

/// Multi-head latent attention (DeepSeek): the cache holds kv_lora_rank + qk_rope_head_dim elements per token and layer
struct MlaShape {
  std::int32_t q_lora_rank = 0;  // 0: queries are projected directly
  std::int32_t kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  bool operator==(const MlaShape&) const = default;
};

/// How the published weights are stored; used by studies that state no type.
struct Checkpoint {
  DType dtype = DType::bf16;
  double scale_bytes = 0;          // of scales and zero points per quantised weight, beyond bytes_per_element(dtype)
  std::vector<std::string> wide;   // matrices kept in 16 bits, by their names in tp_layout.h
  std::optional<DType> kv_dtype;   // if stated by the checkpoint
  std::string format;              // "AWQ, 4 bits, groups of 128"
  std::vector<std::string> notes;  // what is not computed as it really runs
  bool operator==(const Checkpoint&) const = default;
};

struct LlmShape {
  std::string id;      // "llama-2-7b"
  std::string hf_id;   // "meta-llama/Llama-2-7b-hf"; empty: unknown
  std::string family;  // llama, mistral, qwen2, falcon, opt …
  std::int32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int32_t intermediate = 0;  // MLP width
  std::int32_t vocab = 0;
  std::int32_t max_position = 0;    // context length; 0: not stated
  bool gated_mlp = true;            // three matrices (gate, up, down) instead of two
  bool parallel_attention = false;  // attention and MLP in parallel: one all-reduce per layer
  bool qkv_bias = false, qk_norm = false, tie_embeddings = false, learned_positions = false;
  Norm norm = Norm::rmsnorm;
  std::int32_t norms = 0;  // norms per layer; 0: as usual in the family
  std::string activation = "silu";
  double rope_base = 0;
  std::int32_t rotary_dim = 0;        // 0: the whole head
  std::int32_t sliding_window = 0;    // tokens; 0: none
  std::int32_t window_period = 1;     // 1: every layer is windowed; 2: every other one (Gemma 2)
  std::vector<std::uint8_t> windows;  // by layer, 1: windowed; empty: determined by window_period
  bool chunked = false;               // the window is a chunk that starts anew (Llama 4); computed as a window
  std::optional<MoeShape> moe;
  std::optional<MlaShape> mla;
  std::optional<Checkpoint> checkpoint;  // nullopt: not stated
  std::string source;                    // source of the figures
  std::vector<std::string> notes;        // parts of the model that are not computed
  bool operator==(const LlmShape&) const = default;
};

/// Returns the elements of all matrices, norms and biases, including embeddings and LM head (tied ones once).
[[nodiscard]] double weight_count(const LlmShape& shape);
/// Returns the same count with only the experts that one token uses.
[[nodiscard]] double active_weight_count(const LlmShape& shape);
/// Returns the bytes of K and V (or of the latent) that one token adds in all layers, before the split by TP.
[[nodiscard]] Bytes kv_bytes_per_token(const LlmShape& shape, DType kv_dtype);

}  // namespace plimsoll::model

// SPDX-License-Identifier: Apache-2.0
// Reads how the weights beside a config.json are stored: torch_dtype or dtype, and quantization_config (or the file
// hf_quant_config.json of NVIDIA's tools). An unknown method is refused by name, never ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "configs/json_fields.h"
#include "model/llm_shape.h"
#include "model/op_id.h"

namespace plimsoll::configs {

/// Returns how the weights are stored; nullopt if the file does not say. `whole` is the file, `text` the part for the
/// language model (the file itself if it has no parts). Throws InputError for a method, a number of bits or a mixture
/// that is not supported.
[[nodiscard]] std::optional<model::Checkpoint> read_checkpoint(const JsonFields& whole, const JsonFields& text,
                                                               const model::LlmShape& shape);

// ---- hf_modules.cpp: the matrices that a quantization_config's list of modules selects ---------------------------

/// Patterns over module names as the tools write them: a name or whole words of one ("lm_head", "gate"), a glob
/// ("model.layers.0.self_attn*"), or a regular expression ("re:.*mlp.*").
using ModulePatterns = std::vector<std::string>;

/// Counts the layers in which a list of modules selects a matrix.
struct MatrixShare {
  model::OpId matrix = model::OpId::none;
  std::int32_t meant = 0, layers = 0;  // layers in which a pattern selects the matrix; layers that have the matrix
};
/// Returns one entry per quantised matrix of the shape. Throws std::regex_error for an invalid regular expression.
[[nodiscard]] std::vector<MatrixShare> matrices_meant(const ModulePatterns& patterns, const model::LlmShape& shape);

// ---- hf_packing.cpp: how the integers are packed, as far as the tensors do not show it --------------------------

struct PackedCheckpoint {
  std::int64_t group = 0;      // columns that share a scale; 0: not stated, or a group is a row
  bool zeros_less_one = true;  // GPTQ stores zeros one less than meant, except in the format "gptq_v2"
};

/// Reads quantization_config of a config.json. A missing file or section gives the defaults. Throws InputError at the
/// field for a way of packing that is not known, such as AWQ's layouts for GEMV.
[[nodiscard]] PackedCheckpoint read_packing(const std::string& config);

}  // namespace plimsoll::configs

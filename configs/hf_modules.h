// SPDX-License-Identifier: Apache-2.0
// Finds the matrices of a model that the module list of a quantization_config selects. Private to configs/.
#pragma once

#include <string>
#include <vector>

#include "model/llm_shape.h"
#include "model/op_id.h"

namespace plimsoll::configs {

/// Patterns over module names as the tools write them: a name or whole words of one ("lm_head", "gate"), a glob
/// ("model.layers.0.self_attn*"), or a regular expression ("re:.*mlp.*").
using ModulePatterns = std::vector<std::string>;

struct MatrixShare {
  model::OpId matrix = model::OpId::none;
  std::int32_t meant = 0, layers = 0;  // layers in which a pattern selects the matrix; layers that have the matrix
};
/// Returns one entry per quantised matrix of the shape. Throws std::regex_error for an invalid regular expression.
[[nodiscard]] std::vector<MatrixShare> matrices_meant(const ModulePatterns& patterns, const model::LlmShape& shape);

}  // namespace plimsoll::configs

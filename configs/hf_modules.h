// SPDX-License-Identifier: Apache-2.0
// Which matrices of a model a list of modules in a quantization_config means. Private to configs/.
#pragma once

#include <string>
#include <vector>

#include "model/llm_shape.h"
#include "model/op_id.h"

namespace plimsoll::configs {

/// Patterns over the names of modules as the tools write them: a name or a part of one in whole words ("lm_head",
/// "gate"), a glob ("model.layers.0.self_attn*"), a regular expression ("re:.*mlp.*").
using ModulePatterns = std::vector<std::string>;

struct MatrixShare {
  model::OpId matrix = model::OpId::none;
  std::int32_t meant = 0, layers = 0;  // layers in which the patterns mean it, of those that have it
};
/// For every quantised matrix of the shape. Throws std::regex_error for an expression that is none.
[[nodiscard]] std::vector<MatrixShare> matrices_meant(const ModulePatterns& patterns, const model::LlmShape& shape);

}  // namespace plimsoll::configs

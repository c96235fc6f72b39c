// SPDX-License-Identifier: Apache-2.0
// How this project's executor stores the weights of a model, which decides their bytes.
#pragma once

#include <cstdint>

#include "model/llm_shape.h"

namespace plimsoll::model {

/// Weights that the executor rounds to integers when it loads them have groups of this many, without zero points.
inline constexpr std::int64_t kLoadGroup = 32;

/// Returns the shape with the checkpoint that the executor runs in this type. Integers that the files hold stay as they
/// are; others are rounded on load, in all matrices of the layers but the router. Floats change nothing.
[[nodiscard]] LlmShape stored_shape(LlmShape shape, DType weight_dtype);

}  // namespace plimsoll::model

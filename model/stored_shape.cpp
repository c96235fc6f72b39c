// SPDX-License-Identifier: Apache-2.0
#include "model/stored_shape.h"

#include <fmt/format.h>

#include <utility>

namespace plimsoll::model {

LlmShape stored_shape(LlmShape shape, DType weight_dtype) {
  if (weight_dtype != DType::int8 && weight_dtype != DType::int4) return shape;
  if (shape.checkpoint && shape.checkpoint->dtype == weight_dtype) return shape;
  constexpr double kScaleBytes = 2;
  const int bits = weight_dtype == DType::int8 ? 8 : 4;
  Checkpoint rounded;
  rounded.dtype = weight_dtype;
  rounded.scale_bytes = kScaleBytes / kLoadGroup;
  rounded.format = fmt::format("rounded on load, {} bits, groups of {}", bits, kLoadGroup);
  shape.checkpoint = std::move(rounded);
  return shape;
}

}  // namespace plimsoll::model

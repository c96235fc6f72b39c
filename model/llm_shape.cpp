// SPDX-License-Identifier: Apache-2.0
#include "model/llm_shape.h"

#include <array>
#include <utility>

#include "model/tp_layout.h"

namespace plimsoll::model {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 18> kDTypeNames{{{"fp32", DType::fp32},
                                                                          {"fp16", DType::fp16},
                                                                          {"bf16", DType::bf16},
                                                                          {"fp8", DType::fp8},
                                                                          {"int8", DType::int8},
                                                                          {"int4", DType::int4},
                                                                          {"nvfp4", DType::nvfp4},
                                                                          {"mxfp4", DType::mxfp4},
                                                                          {"float32", DType::fp32},
                                                                          {"f32", DType::fp32},
                                                                          {"float16", DType::fp16},
                                                                          {"f16", DType::fp16},
                                                                          {"half", DType::fp16},
                                                                          {"bfloat16", DType::bf16},
                                                                          {"float8", DType::fp8},
                                                                          {"fp8_e4m3", DType::fp8},
                                                                          {"float8_e4m3fn", DType::fp8},
                                                                          {"fp4", DType::nvfp4}}};

// OPT's table of learned positions starts at row 2.
constexpr std::int64_t kLearnedPositionOffset = 2;

// Returns the elements of a matrix used by one token: all, or its share of the routed experts.
double used_elements(const Matrix& matrix, const LlmShape& shape) {
  if (matrix.copies == 1) return matrix.elements();
  return matrix.elements() / static_cast<double>(matrix.copies) * shape.moe->experts_per_token;
}

double layer_elements(const LlmShape& shape, bool moe, bool active_only) {
  double elements = layer_vector_elements(shape, 1);
  if (moe)
    elements += expert_vector_elements(shape, 1, active_only ? shape.moe->experts_per_token : shape.moe->experts);
  for (const Matrix& matrix : attention_matrices(shape, 1)) elements += matrix.elements();
  for (const Matrix& matrix : mlp_matrices(shape, 1, moe)) {
    elements += active_only ? used_elements(matrix, shape) : matrix.elements();
  }
  return elements;
}

double elements_outside_layers(const LlmShape& shape) {
  const double table = static_cast<double>(shape.vocab) * shape.hidden;
  double elements = table * (shape.tie_embeddings ? 1 : 2);
  elements += static_cast<double>(shape.hidden) * (shape.norm == Norm::layernorm ? 2 : 1);
  if (shape.learned_positions) {
    elements += static_cast<double>(shape.max_position + kLearnedPositionOffset) * shape.hidden;
  }
  if (shape.family == "gptj") elements += shape.vocab;  // bias of the LM head
  return elements;
}

double count_elements(const LlmShape& shape, bool active_only) {
  std::int32_t with_experts = 0;
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) with_experts += layer_kind(shape, layer).moe ? 1 : 0;
  double elements =
      elements_outside_layers(shape) + (shape.layers - with_experts) * layer_elements(shape, false, active_only);
  if (with_experts > 0) elements += with_experts * layer_elements(shape, true, active_only);
  return elements;
}

}  // namespace

double bytes_per_element(DType dtype) {
  switch (dtype) {
    case DType::fp32: return 4;
    case DType::fp16:
    case DType::bf16: return 2;
    case DType::fp8:
    case DType::int8: return 1;
    case DType::int4: return 0.5;
    case DType::nvfp4: return 0.5 + 1.0 / 16;
    case DType::mxfp4: return 0.5 + 1.0 / 32;
  }
  return 0;
}

const char* name(DType dtype) {
  for (const auto& [text, value] : kDTypeNames) {
    if (value == dtype) return text.data();
  }
  return "";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& [text, value] : kDTypeNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

double weight_count(const LlmShape& shape) { return count_elements(shape, false); }
double active_weight_count(const LlmShape& shape) { return count_elements(shape, true); }

Bytes kv_bytes_per_token(const LlmShape& shape, DType kv_dtype) {
  return Bytes(shape.layers * kv_elements_per_layer(shape, 1) * bytes_per_element(kv_dtype));
}

}  // namespace plimsoll::model

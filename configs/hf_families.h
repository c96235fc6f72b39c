// SPDX-License-Identifier: Apache-2.0
// The supported model types of Hugging Face config.json files, each with its defaults and its reader, and the refused
// ones with the reason. Private to configs/.
#pragma once

#include <string>
#include <string_view>

#include "configs/json_fields.h"
#include "model/llm_shape.h"

namespace plimsoll::configs {

// Far above any real model; the limits keep all products within the range of integers.
inline constexpr Range kLayers{1, 10'000}, kWidth{1, 1'000'000}, kHeads{1, 100'000}, kVocabulary{1, 100'000'000};
inline constexpr Range kPositions{1, 1'000'000'000}, kExperts{1, 100'000};

/// A model type and the defaults of its fields.
struct ModelType {
  std::string_view name, family;
  void (*read)(const JsonFields&, model::LlmShape&);  // fields that read_common (hf_config.cpp) does not read
  bool tie_embeddings = false;
  double rope_base = 10'000;  // 0: no rotation, or not configurable
  std::string_view activation = "silu";
  bool multimodal = false;         // the model also has an encoder, although the file does not say so
  std::string_view defaults = {};  // JSON of fields that published files omit; empty: none
};

/// Returns nullptr if the type is not supported.
[[nodiscard]] const ModelType* find_type(std::string_view name);
/// Returns what a prediction for models of this type would get wrong; empty if the type is not refused. Also accepts
/// names of models, with '_' instead of '-': "qwen3_next_80b_a3b".
[[nodiscard]] std::string_view why_refused(std::string_view type);
/// Throws InputError at the file's model_type with the reason for refusing the type, or with the supported types.
[[noreturn]] void refuse_type(const JsonFields& f, const std::string& name);

}  // namespace plimsoll::configs

// SPDX-License-Identifier: Apache-2.0
// The model types of Hugging Face config.json files that are read, each with its defaults and its reader, and those
// that are refused with what would be wrong. Private to configs/.
#pragma once

#include <string>
#include <string_view>

#include "configs/json_fields.h"
#include "model/llm_shape.h"

namespace plimsoll::configs {

// What no model comes near; keeps all products far from the limits of integers.
inline constexpr Range kLayers{1, 10'000}, kWidth{1, 1'000'000}, kHeads{1, 100'000}, kVocabulary{1, 100'000'000};
inline constexpr Range kPositions{1, 1'000'000'000}, kExperts{1, 100'000};

/// A model type and the defaults of its fields.
struct ModelType {
  std::string_view name, family;
  void (*read)(const JsonFields&, model::LlmShape&);  // what the family has beyond read_common (hf_config.cpp)
  bool tie_embeddings = false;
  double rope_base = 10'000;  // 0: no rotation, or one that is not configured
  std::string_view activation = "silu";
  bool multimodal = false;         // the file has an encoder too, without saying so
  std::string_view defaults = {};  // fields as JSON that published files leave out; empty: none
};

/// nullptr for a type that is not read.
[[nodiscard]] const ModelType* find_type(std::string_view name);
/// Throws InputError at the file's model_type: what would be wrong with it, or the types that are read.
[[noreturn]] void refuse_type(const JsonFields& f, const std::string& name);

}  // namespace plimsoll::configs

// SPDX-License-Identifier: Apache-2.0
// Reads how the weights beside a config.json are stored: torch_dtype or dtype, and quantization_config (or the file
// hf_quant_config.json of NVIDIA's tools). An unknown method is refused by name, never ignored. Private to configs/.
#pragma once

#include <optional>

#include "configs/json_fields.h"
#include "model/llm_shape.h"

namespace plimsoll::configs {

/// `whole` is the file, `text` the part for the language model (the file itself if it has no parts). Returns nullopt if
/// the file does not say how its weights are stored. Throws InputError for a method, a number of bits or a mixture that
/// is not modelled.
[[nodiscard]] std::optional<model::Checkpoint> read_checkpoint(const JsonFields& whole, const JsonFields& text,
                                                               const model::LlmShape& shape);

}  // namespace plimsoll::configs

// SPDX-License-Identifier: Apache-2.0
// How the weights beside a config.json are stored: torch_dtype or dtype, and quantization_config (or
// hf_quant_config.json beside it, where NVIDIA's tools write it). A method that is not known is refused by name, never
// passed over. Private to configs/.
#pragma once

#include <optional>

#include "configs/json_fields.h"
#include "model/llm_shape.h"

namespace plimsoll::configs {

/// `whole` is the file, `text` the language model's part of it (the file itself, where it has no parts). nullopt: the
/// file does not say how its weights are stored. Throws InputError for a method, a number of bits or a mixture that is
/// not modelled.
[[nodiscard]] std::optional<model::Checkpoint> read_checkpoint(const JsonFields& whole, const JsonFields& text,
                                                               const model::LlmShape& shape);

}  // namespace plimsoll::configs

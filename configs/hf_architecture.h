// SPDX-License-Identifier: Apache-2.0
// Reads everything needed to compute a model from its Hugging Face config.json. read_hf_config (catalogue.h) reads only
// the shape and accepts more models.
#pragma once

#include <string>

#include "model/architecture.h"

namespace plimsoll::configs {

/// Throws InputError with file, line and field if the file is not a config.json, if read_hf_config refuses it, or if
/// the model is of a variant that is not implemented (YaRN, ALiBi, expert weights that do not sum to 1 …). The caller
/// checks model::execution_problem, which depends on more than this file.
[[nodiscard]] model::Architecture read_hf_architecture(const std::string& path);

}  // namespace plimsoll::configs

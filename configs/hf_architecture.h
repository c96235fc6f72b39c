// SPDX-License-Identifier: Apache-2.0
// What it takes to compute a model, from its Hugging Face config.json. read_hf_config (catalogue.h) reads the shape
// alone and takes more models than can be computed.
#pragma once

#include <string>

#include "model/architecture.h"

namespace plimsoll::configs {

/// Throws InputError with file, line and field for a file that is no config.json, for what read_hf_config refuses, and
/// for a variant that is not computed (YaRN, ALiBi, weights of experts that do not sum to 1 …).
/// model::execution_problem is left to the caller: it is not about this file alone.
[[nodiscard]] model::Architecture read_hf_architecture(const std::string& path);

}  // namespace plimsoll::configs

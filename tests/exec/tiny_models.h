// SPDX-License-Identifier: Apache-2.0
// Tiny architectures, one of every family that the executor runs, with ragged widths.
#pragma once

#include <string>
#include <vector>

#include "model/architecture.h"

namespace plimsoll::exec {

/// llama, llama3, mistral, qwen2, qwen3, falcon_mqa, falcon_groups, gptj, opt, mixtral.
[[nodiscard]] model::Architecture tiny_model(const std::string& family);
[[nodiscard]] std::vector<std::string> tiny_families();

}  // namespace plimsoll::exec

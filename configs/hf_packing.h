// SPDX-License-Identifier: Apache-2.0
// How the integers of a quantised checkpoint are packed, as far as the tensors themselves do not show it.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::configs {

struct PackedCheckpoint {
  std::int64_t group = 0;      // columns that share a scale; 0: not stated, or a group is a row
  bool zeros_less_one = true;  // GPTQ stores zeros one less than meant, except in the format "gptq_v2"
};

/// Reads quantization_config of a config.json. A missing file or section gives the defaults. Throws InputError at the
/// field for a way of packing that is not known, such as AWQ's layouts for GEMV.
[[nodiscard]] PackedCheckpoint read_packing(const std::string& config);

}  // namespace plimsoll::configs

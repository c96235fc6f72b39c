// SPDX-License-Identifier: Apache-2.0
// The model that a user names, with its weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "configs/catalogue.h"
#include "exec/weights/weights.h"
#include "model/architecture.h"

namespace plimsoll::exec {

struct OpenModel {
  model::Architecture architecture;
  std::unique_ptr<WeightSource> weights;
  std::string origin;  // "random weights (seed 1)", or the file they come from
};

/// `name`: a folder with config.json and .safetensors, a .safetensors file or *.safetensors.index.json with config.json
/// beside it; or, with random weights from `seed`, a config.json or a name of the catalogue. Throws InputError, also
/// for a model that is simulated but not executed.
[[nodiscard]] OpenModel open_model(const std::string& name, std::uint64_t seed, const configs::Catalogue& catalogue);
/// Random weights for an architecture that is known; with `path`, those of the files.
[[nodiscard]] OpenModel open_weights(const model::Architecture& architecture, const std::string& path,
                                     std::uint64_t seed);

}  // namespace plimsoll::exec

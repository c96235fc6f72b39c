// SPDX-License-Identifier: Apache-2.0
// Opens a model by name, with its weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "configs/catalogue.h"
#include "exec/weights/weights.h"
#include "model/architecture.h"

namespace plimsoll::exec {

/// A model ready to be loaded. The weights are read when an engine asks for them.
struct OpenModel {
  model::Architecture architecture;
  std::unique_ptr<WeightSource> weights;
  std::string origin;  // "random weights (seed 1)", or the file that holds them
};

/// Opens a model. `name` is a folder with config.json and .safetensors, or a .safetensors file or
/// *.safetensors.index.json with config.json beside it. It may also be a config.json or a catalogue name; the weights
/// are then random, drawn from `seed`. Throws InputError, also for a model that can be simulated but not executed.
[[nodiscard]] OpenModel open_model(const std::string& name, std::uint64_t seed, const configs::Catalogue& catalogue);
/// Opens weights for a known architecture: those of the files at `path`, or random ones if `path` is empty.
[[nodiscard]] OpenModel open_weights(const model::Architecture& architecture, const std::string& path,
                                     std::uint64_t seed);

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/open_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "configs/catalogue.h"
#include "model/error.h"

namespace plimsoll::exec {
namespace {

namespace fs = std::filesystem;

bool is_weights(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

void check_executable(const model::Architecture& architecture, const std::string& name) {
  if (const std::string problem = model::execution_problem(architecture); !problem.empty())
    throw InputError(fmt::format("{}: {}", name, problem));
}

}  // namespace

OpenModel open_weights(const model::Architecture& architecture, const std::string& path, std::uint64_t seed) {
  if (path.empty())
    return {architecture, random_weights(architecture, seed), fmt::format("random weights (seed {})", seed)};
  return {architecture, safetensors_weights(architecture, path), path};
}

OpenModel open_model(const std::string& name, std::uint64_t seed, const configs::Catalogue& catalogue) {
  std::error_code error;
  const bool folder = fs::is_directory(name, error);
  if (folder || is_weights(name)) {
    const fs::path config = (folder ? fs::path(name) : fs::path(name).parent_path()) / "config.json";
    const model::Architecture architecture = configs::read_hf_architecture(config.string());
    check_executable(architecture, config.string());
    return open_weights(architecture, name, seed);
  }
  const bool file = name.ends_with(".json");
  const model::Architecture architecture =
      file ? configs::read_hf_architecture(name) : model::default_architecture(*catalogue.model(name));
  check_executable(architecture, name);
  return open_weights(architecture, {}, seed);
}

}  // namespace plimsoll::exec

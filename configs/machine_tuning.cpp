// SPDX-License-Identifier: Apache-2.0
// The key `kernels` of a machine file: how the CPU executor runs products.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "configs/this_machine.h"

namespace plimsoll::configs {

namespace {

constexpr std::int64_t kMostTiles = 1024, kMostBytes = 1 << 20, kMostParts = 64;
constexpr std::int64_t kDepthStep = 128;                           // whole blocks of integers and whole tiles of AMX
constexpr std::int64_t kMostDepth = 1 << 16, kMostThreads = 1024;  // as many as --threads may state

model::CpuBlocking read_blocking(const Node& node) {
  static constexpr std::array<std::string_view, 4> kKeys = {"tiles", "depth", "ahead", "far"};
  node.require_known_keys(kKeys);
  model::CpuBlocking blocking;
  blocking.tiles = node.at("tiles").as_integer(1, kMostTiles);
  const Node depth = node.at("depth");
  blocking.depth = depth.as_integer(kDepthStep, kMostDepth);
  if (blocking.depth % kDepthStep != 0)
    depth.fail(fmt::format("found {}, expected a multiple of {}", blocking.depth, kDepthStep));
  blocking.ahead = node.at("ahead").as_integer(0, kMostBytes);
  blocking.far = node.at("far").as_bool();
  return blocking;
}

model::CpuBlockings read_blockings(const Node& node) {
  static constexpr std::array<std::string_view, 4> kKeys = {"one", "tile", "few", "many"};
  node.require_known_keys(kKeys);
  // Files from before 2026-11-29 have one entry for a single row and for a tile of several.
  return {.one = read_blocking(node.at("one")),
          .tile = read_blocking(node.find("tile").value_or(node.at("one"))),
          .few = read_blocking(node.at("few")),
          .many = read_blocking(node.at("many"))};
}

std::string blockings_yaml(const model::CpuBlockings& blockings, const std::string& pad) {
  std::string text;
  const std::pair<const char*, const model::CpuBlocking*> parts[] = {
      {"one", &blockings.one}, {"tile", &blockings.tile}, {"few", &blockings.few}, {"many", &blockings.many}};
  for (const auto& [name, b] : parts)
    text += fmt::format("{}{}: {{tiles: {}, depth: {}, ahead: {}, far: {}}}\n", pad, name, b->tiles, b->depth, b->ahead,
                        b->far);
  return text;
}

}  // namespace

model::CpuTuning read_tuning(const Node& node) {
  static constexpr std::array<std::string_view, 6> kKeys = {"bf16",   "threads",  "decode_parts",
                                                            "floats", "integers", "int4"};
  node.require_known_keys(kKeys);
  model::CpuTuning tuning;
  const Node bf16 = node.at("bf16");
  const auto& names = model::kBf16ProductNames;
  const auto* const found = std::find(names.begin(), names.end(), bf16.as_string());
  if (found == names.end()) bf16.fail(fmt::format("found '{}', allowed: {}", bf16.as_string(), fmt::join(names, ", ")));
  tuning.bf16 = static_cast<model::Bf16Products>(found - names.begin());
  tuning.threads = static_cast<int>(node.at("threads").as_integer(0, kMostThreads));
  tuning.decode_parts = static_cast<int>(node.at("decode_parts").as_integer(1, kMostParts));
  tuning.floats = read_blockings(node.at("floats"));
  tuning.integers = read_blockings(node.at("integers"));
  const auto int4 = node.find("int4");
  tuning.int4 = int4 ? read_blockings(*int4) : tuning.integers;  // older files lack int4
  return tuning;
}

std::string tuning_yaml(const model::CpuTuning& tuning, const std::string& pad) {
  std::string text =
      fmt::format("{0}bf16: {1}\n{0}threads: {2}\n{0}decode_parts: {3}\n", pad,
                  model::kBf16ProductNames[static_cast<std::size_t>(tuning.bf16)], tuning.threads, tuning.decode_parts);
  const std::pair<const char*, const model::CpuBlockings*> types[] = {
      {"floats", &tuning.floats}, {"integers", &tuning.integers}, {"int4", &tuning.int4}};
  for (const auto& [name, blockings] : types)
    text += fmt::format("{}{}:\n{}", pad, name, blockings_yaml(*blockings, pad + "  "));
  return text;
}

std::optional<model::CpuTuning> tuning_of(const Document& document) {
  (void)read_this_machine(document);  // refuses other versions and other machines
  const auto kernels = document.root().find("kernels");
  return kernels ? std::optional(read_tuning(*kernels)) : std::nullopt;
}

std::optional<model::CpuTuning> calibrated_tuning() {
  const std::string file = machine_file("cpu");
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  return tuning_of(Document::from_file(file));
}

}  // namespace plimsoll::configs

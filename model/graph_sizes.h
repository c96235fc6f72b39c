// SPDX-License-Identifier: Apache-2.0
// Batches of captured CUDA graphs: a graph runs with the number of tokens that it was captured with, so a smaller step
// is padded (docs/cost-model.md).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model/engine_profile.h"
#include "model/units.h"

namespace plimsoll::model {

/// The quantities on which the products' rules depend.
struct GraphLimits {
  std::int64_t max_running = 0, step_tokens = 0;
  Bytes memory{0};  // of one accelerator
  std::int32_t tp = 1;
};

namespace detail {

// The largest batch that SGLang captures, by the memory of a GPU.
inline std::int64_t sglang_most(const GraphLimits& limits) {
  constexpr double kGibibyte = 1 << 30;
  struct Row {
    double below;
    std::int64_t narrow, wide;  // with fewer than four ranks, and with more
  };
  constexpr std::array<Row, 5> kRows = {{{20, 8, 8}, {35, 24, 80}, {60, 32, 160}, {160, 256, 512}, {1e9, 512, 512}}};
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return limits.memory.value < r.below * kGibibyte; });
  return limits.tp < 4 ? row->narrow : row->wide;
}

}  // namespace detail

/// Returns the batches that a product captures by default; none for `off`.
///   vLLM 0.12: 1, 2, 4, from 8 on every eighth and from 256 on every sixteenth, up to twice the running sequences, 512
///     and the token budget of a step.
///   SGLang 0.5: 1, 2, 4, 8, 12, from 16 on every eighth, from 256 on every sixteenth, from 512 on every thirty-second,
///     up to a limit by the GPU's memory and the ranks, and the running sequences.
///   TensorRT-LLM 1.0 with enable_padding: 1, 2, 4, from 8 on every eighth up to 128.
///   TGI 2 and 3: 1, 2, 4, 8, 16, 32.
[[nodiscard]] inline std::vector<std::int64_t> graph_sizes(GraphRule rule, const GraphLimits& limits) {
  struct Grid {
    std::vector<std::int64_t> first;
    std::int64_t begin, fine, coarse_from, most;
  };
  constexpr std::int64_t kVllmMost = 512, kTrtllmMost = 128, kNever = 1 << 30;
  Grid grid{{1, 2, 4}, 8, 8, 256, 0};
  if (rule == GraphRule::vllm)
    grid.most = std::min({2 * std::min(limits.max_running, kVllmMost), kVllmMost, limits.step_tokens});
  if (rule == GraphRule::sglang)
    grid = {{1, 2, 4, 8, 12}, 16, 8, 256, std::min(detail::sglang_most(limits), limits.max_running)};
  if (rule == GraphRule::trtllm) grid = {{1, 2, 4}, 8, 8, kNever, std::min(kTrtllmMost, limits.max_running)};
  if (rule == GraphRule::tgi) grid = {{1, 2, 4, 8, 16, 32}, kNever, 8, kNever, 32};
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : grid.first)
    if (size <= grid.most) sizes.push_back(size);
  for (std::int64_t size = grid.begin; size <= grid.most; size += size < grid.coarse_from ? grid.fine : 2 * grid.fine)
    sizes.push_back(size);
  return sizes;
}

/// Returns the size of the graph that runs a step of `tokens`; 0 if no graph is large enough.
[[nodiscard]] inline std::int64_t graph_rows(std::span<const std::int64_t> sizes, std::int64_t tokens) {
  const auto size = std::lower_bound(sizes.begin(), sizes.end(), tokens);
  return size == sizes.end() ? 0 : *size;
}

}  // namespace plimsoll::model

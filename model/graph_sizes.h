// SPDX-License-Identifier: Apache-2.0
// Batches of captured CUDA graphs: a graph runs with the number of tokens that it was captured with, so a smaller step
// is padded (docs/cost-model.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::model {

/// Returns the sizes that vLLM 0.12 captures: 1, 2, 4, from 8 on every eighth and from 256 on every sixteenth, up to
/// twice the running sequences, 512 and the token budget of a step.
[[nodiscard]] inline std::vector<std::int64_t> vllm_graph_sizes(std::int64_t max_running, std::int64_t step_tokens) {
  constexpr std::int64_t kMost = 512, kFine = 8, kCoarse = 16, kCoarseFrom = 256;
  const std::int64_t most = std::min({2 * std::min(max_running, kMost), kMost, step_tokens});
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : {1, 2, 4})
    if (size <= most) sizes.push_back(size);
  for (std::int64_t size = kFine; size <= most; size += size < kCoarseFrom ? kFine : kCoarse) sizes.push_back(size);
  return sizes;
}

/// Returns the size of the graph that runs a step of `tokens`; 0 if no graph is large enough.
[[nodiscard]] inline std::int64_t graph_rows(std::span<const std::int64_t> sizes, std::int64_t tokens) {
  const auto size = std::lower_bound(sizes.begin(), sizes.end(), tokens);
  return size == sizes.end() ? 0 : *size;
}

}  // namespace plimsoll::model

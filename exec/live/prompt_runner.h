// SPDX-License-Identifier: Apache-2.0
// Runs prompts through an engine without a scheduler, for `plimsoll forward`: prefills all of them, then decodes
// greedily.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/engine.h"
#include "exec/live/prompts.h"

namespace plimsoll::exec {

struct PromptRun {
  std::int64_t generate = 0;       // tokens to decode after each prompt
  std::int64_t chunk = 0;          // most prompt tokens in a forward; 0 for whole prompts
  std::int32_t block_tokens = 16;  // 0 for blocks that hold the longest sequence
  /// Receives rows [row, row + values.size() / vocabulary) of a prompt's logits. If empty, logits are not computed.
  std::function<void(std::size_t prompt, std::int64_t row, std::span<const float> values)> on_logits;
  /// Receives the experts of the same rows, `row` being that of the prompt. May be empty.
  std::function<void(std::size_t prompt, const RowExperts& experts)> on_experts;
  /// Called after each forward with the fraction of the work that is done. Returns false to stop the run.
  std::function<bool(double done)> on_progress;
};

/// Sets block_tokens, kv_blocks, sequences and step_rows so that an engine can run the prompts. Many prompts run as
/// groups, one group after another.
void make_room(const std::vector<Prompt>& prompts, const PromptRun& run, EngineConfig& config);

/// Returns the continuation of every prompt; after a stop they are short or empty. The engine's configuration must come
/// from make_room().
[[nodiscard]] std::vector<std::vector<std::int32_t>> run_prompts(Engine& engine, const std::vector<Prompt>& prompts,
                                                                 const PromptRun& run);

}  // namespace plimsoll::exec

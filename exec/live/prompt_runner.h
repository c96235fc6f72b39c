// SPDX-License-Identifier: Apache-2.0
// Prompts through an engine without a scheduler: all together, first the prompts, then greedy decoding. What `plimsoll
// forward` runs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/engine.h"
#include "exec/live/prompts.h"

namespace plimsoll::exec {

struct PromptRun {
  std::int64_t generate = 0;       // greedy tokens behind each prompt
  std::int64_t chunk = 0;          // tokens of a prompt a forward at most; 0: whole prompts
  std::int32_t block_tokens = 16;  // 0: a block holds the longest sequence
  /// Rows [row, row + values.size() / vocabulary) of a prompt's logits; empty: nobody wants them.
  std::function<void(std::size_t prompt, std::int64_t row, std::span<const float> values)> on_logits;
  /// After each forward, with the share of the work that is done; false stops the run.
  std::function<bool(double done)> on_progress;
};

/// Sets block_tokens, kv_blocks, sequences and step_rows so that an engine can run the prompts; of many it runs groups
/// one after another.
void make_room(const std::vector<Prompt>& prompts, const PromptRun& run, EngineConfig& config);

/// The continuation of every prompt; those of a run that was stopped are short or empty. `engine` is one that make_room
/// made room in.
[[nodiscard]] std::vector<std::vector<std::int32_t>> run_prompts(Engine& engine, const std::vector<Prompt>& prompts,
                                                                 const PromptRun& run);

}  // namespace plimsoll::exec

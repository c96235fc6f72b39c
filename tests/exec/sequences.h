// SPDX-License-Identifier: Apache-2.0
// Drives an engine by hand in tests: sequences with shuffled block tables, prefill in pieces, greedy decoding. Also
// drives a replica whose policy decides the steps.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/engine.h"
#include "exec/live/live_replica.h"
#include "exec/live/step_builder.h"

namespace plimsoll::exec {

using Tokens = std::vector<std::int32_t>;

/// Returns numbers in [0, vocab), determined by the seed.
[[nodiscard]] Tokens random_tokens(std::uint64_t seed, std::size_t count, std::int32_t vocab);

/// A small engine on two threads of the CPU, in fp32, with poisoned buffers.
[[nodiscard]] EngineConfig tiny_config(const model::Architecture& architecture, std::int32_t tp = 1);

/// Sequences of one engine. All of them run together in every forward; use several objects for separate batches.
class Sequences {
 public:
  explicit Sequences(Engine& engine);

  /// Prefills `prompts` together, in pieces of at most `chunk` tokens (0 for whole prompts). Returns the logits of
  /// every position of each prompt, [length, vocabulary] row-major.
  [[nodiscard]] std::vector<std::vector<float>> prefill(const std::vector<Tokens>& prompts, std::int64_t chunk = 0);
  /// Returns `steps` greedy tokens of each sequence after prefill(). The first one comes from the prompt's last logits;
  /// then the engine continues with its own samples (token -1).
  [[nodiscard]] std::vector<Tokens> decode(std::int64_t steps);

 private:
  struct Sequence {
    Tokens tokens;
    std::vector<std::int32_t> blocks;
    std::int64_t context = 0;
    std::int32_t slot = 0;
    std::int32_t last = -1;
  };
  void cover(Sequence& sequence, std::int64_t tokens);

  Engine& engine_;
  std::vector<std::int32_t> free_;  // in random order
  std::vector<Sequence> sequences_;
};

/// Runs the steps of a replica one by one, each a nanosecond long, until it has none left. Returns the requests that
/// ended.
std::vector<sched::FinishedAttempt> run_steps(LiveReplica& live, StepBuilder& builder);

}  // namespace plimsoll::exec

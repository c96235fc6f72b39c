// SPDX-License-Identifier: Apache-2.0
// The input of one forward pass: token ids, contexts and block tables. Spans point into the caller's memory, which must
// stay valid until the forward has ended.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward_work.h"

namespace plimsoll::exec {

/// Prompt (or recomputed) tokens of one sequence on top of `context` cached ones.
struct PrefillRows {
  std::span<const std::int32_t> tokens;
  std::int64_t context = 0;
  std::span<const std::int32_t> blocks;  // of the whole sequence: covers context + tokens
  std::int32_t slot = 0;                 // where the sampled token is stored: < EngineConfig::sequences
  std::uint64_t request = 0;             // keys the random numbers of sampling
  std::int64_t padding = 0;              // further rows that are computed and discarded (static batching)
  bool emits = false;                    // the last row is sampled
};

/// One sequence that decodes one token.
struct DecodeRow {
  std::int32_t token = -1;               // its newest token; -1: what its slot sampled last
  std::int64_t context = 0;              // tokens with KV so far: the new one goes to this position
  std::span<const std::int32_t> blocks;  // covers context + 1
  std::int32_t slot = 0;
  std::uint64_t request = 0;
  std::int64_t charged = 0;  // attend to at least this many tokens, and discard the surplus; 0: no padding
  bool dead = false;         // computed but unused: writes no KV, and its sample is discarded
};

/// temperature 0 is greedy. Otherwise the largest of logit / temperature + Gumbel noise drawn for (seed, request,
/// position, token), which is an exact draw of the softmax and the same for every TP degree.
struct Sampling {
  float temperature = 0;
  std::uint64_t seed = 0;
};

/// The order of rows: prefill spans, each with its padding, then decode rows.
struct ForwardInput {
  std::vector<PrefillRows> prefill;
  std::vector<DecodeRow> decode;
  Sampling sampling;
  bool all_logits = false;  // every row but padding goes through the LM head and its logits come back
};

struct ForwardOutput {
  std::vector<std::int32_t> tokens;  // one for each emitting span, then one for each decode row, dead ones included
  std::vector<float> logits;         // with all_logits: [rows without padding, vocabulary]; else empty
};

/// What the cost model needs to know of the same forward. `spans` is storage for the result.
[[nodiscard]] model::ForwardWork work_of(const ForwardInput& input, std::int64_t sliding_window,
                                         std::vector<model::PrefillSpan>& spans);

}  // namespace plimsoll::exec

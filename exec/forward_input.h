// SPDX-License-Identifier: Apache-2.0
// The input of one forward pass: token ids, contexts and block tables. Spans point into the caller's memory, which must
// stay valid until the forward has ended.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward_work.h"

namespace plimsoll::exec {

/// temperature 0 is greedy. Otherwise, takes the largest of logit / temperature + Gumbel noise drawn for (seed,
/// request, position, token). This is an exact draw of the softmax and the same for every TP degree. The draw is among
/// the tokens that remain after min_p, then top_k, then top_p (exec/cpu/least_logit.h); tokens with equal logits are
/// kept or dropped together.
struct Sampling {
  float temperature = 0;
  std::uint64_t seed = 0;
  std::int32_t top_k = 0;  // only the k largest logits; 0: all
  float top_p = 1;         // only the most probable tokens that together have this probability
  float min_p = 0;         // only tokens with at least this share of the largest probability
  [[nodiscard]] bool filters() const { return temperature > 0 && (top_k > 0 || top_p < 1 || min_p > 0); }
};

/// Tokens of a prompt (or to be recomputed) of one sequence, which follow `context` cached ones.
struct PrefillRows {
  std::span<const std::int32_t> tokens;
  std::int64_t context = 0;
  std::span<const std::int32_t> blocks;  // block table of the sequence; covers context + tokens
  std::int32_t slot = 0;                 // where the sampled token is stored: < EngineConfig::sequences
  std::uint64_t request = 0;             // key of the random numbers for sampling
  std::int64_t padding = 0;              // additional rows to compute and discard (static batching)
  bool emits = false;                    // the last row is to be sampled
  const Sampling* sampling = nullptr;    // of this sequence; null: that of the forward
};

/// One sequence that decodes one token.
struct DecodeRow {
  std::int32_t token = -1;               // its newest token; -1 for the last one sampled in its slot
  std::int64_t context = 0;              // tokens with KV so far; the new token has this position
  std::span<const std::int32_t> blocks;  // covers context + 1
  std::int32_t slot = 0;
  std::uint64_t request = 0;
  std::int64_t charged = 0;            // attend to at least this many tokens, as if padded; 0: no padding
  bool dead = false;                   // computed but unused: writes no KV, and its sample is discarded
  const Sampling* sampling = nullptr;  // as in PrefillRows
};

/// Rows are in this order: prefill spans, each followed by its padding, then decode rows.
struct ForwardInput {
  std::vector<PrefillRows> prefill;
  std::vector<DecodeRow> decode;
  Sampling sampling;
  bool all_logits = false;  // return the logits of every row except padding
};

/// The experts that one layer chose for a row.
struct RowExperts {
  std::int32_t layer = 0;
  std::int64_t row = 0;               // as the rows of the logits
  std::vector<std::int32_t> experts;  // by rising number
  /// The gap between the score of the last chosen expert and the best of the others, as a fraction of the range of all
  /// scores; with groups, the smaller of this and the same figure for groups. If it is about as small as the rounding
  /// error of bf16, rounding can choose another expert: a flip.
  float margin = 0;
};

struct ForwardOutput {
  std::vector<std::int32_t> tokens;  // one per emitting span, then one per decode row, dead ones included
  std::vector<float> logits;         // with all_logits: [rows without padding, vocabulary]; else empty
  std::vector<RowExperts> experts;   // with all_logits, of mixtures of experts on a CPU; else empty
};

/// Returns the same forward in the terms of the cost model. `spans` is storage for the result.
[[nodiscard]] model::ForwardWork work_of(const ForwardInput& input, std::int64_t sliding_window,
                                         std::vector<model::PrefillSpan>& spans);

}  // namespace plimsoll::exec

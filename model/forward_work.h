// SPDX-License-Identifier: Apache-2.0
// The work of one forward pass, reduced to what determines its ops and its cost.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::model {

/// `new_tokens` rows of one sequence (padding rows included) on top of `context` cached tokens.
struct PrefillSpan {
  std::int64_t new_tokens = 0, context = 0;
};

/// One forward pass.
struct ForwardWork {
  std::span<const PrefillSpan> prefill;
  std::int64_t decode_rows = 0;  // sequences that decode one token, including dead rows
  double decode_context = 0;     // sum over these rows of the tokens attended to, including the new one
  double decode_context_windowed =
      0;                     // the same with every row's context capped at the sliding window (if there is one)
  std::int64_t sampled = 0;  // rows that pass through the LM head
};

/// Returns the rows of all linear layers.
[[nodiscard]] inline std::int64_t total_tokens(const ForwardWork& work) {
  std::int64_t tokens = work.decode_rows;
  for (const PrefillSpan& span : work.prefill) tokens += span.new_tokens;
  return tokens;
}

}  // namespace plimsoll::model

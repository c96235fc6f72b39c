// SPDX-License-Identifier: Apache-2.0
#include "exec/forward_input.h"

#include <algorithm>
#include <limits>

namespace plimsoll::exec {

model::ForwardWork work_of(const ForwardInput& input, std::int64_t sliding_window,
                           std::vector<model::PrefillSpan>& spans) {
  model::ForwardWork work;
  spans.clear();
  for (const PrefillRows& span : input.prefill) {
    const auto tokens = static_cast<std::int64_t>(span.tokens.size());
    if (tokens + span.padding == 0) continue;
    spans.push_back({tokens + span.padding, span.context});
    work.sampled += input.all_logits ? tokens : (span.emits ? 1 : 0);
  }
  work.prefill = spans;
  work.decode_rows = static_cast<std::int64_t>(input.decode.size());
  work.sampled += work.decode_rows;
  const std::int64_t window = sliding_window > 0 ? sliding_window : std::numeric_limits<std::int64_t>::max();
  for (const DecodeRow& row : input.decode) {
    const std::int64_t attended = std::max(row.context + (row.dead ? 0 : 1), row.charged);
    work.decode_context += static_cast<double>(attended);
    work.decode_context_windowed += static_cast<double>(std::min(attended, window));
  }
  return work;
}

}  // namespace plimsoll::exec

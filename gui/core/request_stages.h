// SPDX-License-Identifier: GPL-3.0-or-later
// The stages of a request over time, as the timeline draws them.
#pragma once

#include <QString>
#include <vector>

#include "gui/core/details.h"
#include "sim/simulate.h"

namespace plimsoll::gui {

/// Where a request is. `to_first_token` is for one pool, where a row does not distinguish queue and prefill.
enum class RequestStage : unsigned char {
  client_wait,
  to_first_token,
  queue_prefill,
  prefill,
  transfer,
  queue_decode,
  decode
};
[[nodiscard]] QString stage_words(RequestStage stage);

/// A stage of a request; one that took no time is left out.
struct StageSpan {
  RequestStage stage = RequestStage::client_wait;
  Nanos from = 0, to = 0;
};
/// Returns the stages in order. They follow one another from the arrival to the end; a stage may come twice.
[[nodiscard]] std::vector<StageSpan> stage_spans(const sim::RequestRow& row);

/// Returns whether any of the requests went through pools for prefill and decode.
[[nodiscard]] bool has_stages(const std::vector<sim::RequestRow>& rows);
/// Returns the number of KV transfers under way over time.
[[nodiscard]] std::vector<TimedValue> transfers_under_way(const std::vector<sim::RequestRow>& rows);

}  // namespace plimsoll::gui

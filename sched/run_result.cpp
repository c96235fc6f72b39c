// SPDX-License-Identifier: Apache-2.0
#include "sched/run_result.h"

namespace plimsoll::sched {

StepRow step_row(const Replica& replica, std::int32_t index) {
  StepRow row;
  row.replica = index;
  for (const Forward& forward : replica.decision().forwards()) {
    row.decode_rows += replica.decode_load(forward).rows;
    for (const Segment& segment : forward.prefill) row.prefill_tokens += segment.new_tokens;
    row.prefill_rows += static_cast<std::int64_t>(forward.prefill.size());
  }
  row.kv_blocks = replica.kv().in_use();
  row.queued = replica.policy().queued();
  return row;
}

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
// Text Generation Inference 3 with chunked prefill. At every turn of the loop, waiting requests join as far as there
// are blocks and the running batch leaves prefill budget; the last prompt is cut to the budget that is left. A prefill
// also carries the running batch (decodes and further chunks in the same forward). It is followed by one step of the
// whole batch without newcomers. Blocks of prompt + cap - 1 tokens are held from admission to the end.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/rows.h"

namespace plimsoll::sched {

class TgiChunked final : public QueuePolicy {
 public:
  explicit TgiChunked(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;

 private:
  [[nodiscard]] Blk usable_blocks(const KvLedger& kv) const;
  std::int64_t add_chunks(const View& view, Forward& forward) const;
  void admit_waiting(std::int64_t budget, const View& view, Decision& out, Forward& forward);

  PolicyConfig config_;
  std::int64_t budget_, max_running_;
  std::vector<ReqId> partial_;  // running requests whose prompt is not complete
  bool step_follows_ = false;   // set after newcomers joined a running batch
};

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
// Text Generation Inference, router of 0.9 to 2.x with paged attention. A step is either the prefill of a new batch or
// one decode of the running batch. Waiting requests join when there are enough of them (served_ratio times the running
// ones), or when the running batch has decoded long enough by itself (force_after). One decode always follows.
//
// A request is charged for its prompt and its cap, each rounded up to blocks, against both token budgets. It holds the
// blocks of prompt + cap - 1 tokens from its prefill to its end. So nothing is preempted, and a head that does not fit
// blocks the queue.
#pragma once

#include <cstdint>

#include "sched/rows.h"

namespace plimsoll::sched {

class Tgi final : public QueuePolicy {
 public:
  explicit Tgi(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;

 private:
  /// How many waiting requests fit the budgets, and what ended the list.
  enum class Stop : std::uint8_t { queue_end, budget, batch_size };
  struct Offer {
    std::int64_t requests = 0;
    Stop stop = Stop::queue_end;
  };

  [[nodiscard]] std::int64_t total_budget(const KvLedger& kv) const;
  [[nodiscard]] std::int64_t room() const;
  [[nodiscard]] std::int64_t least() const;
  [[nodiscard]] Offer offer(const View& view) const;
  void prefill(std::int64_t requests, const View& view, Decision& out);
  void decode(const Offer& offer, Decision& out) const;

  PolicyConfig config_;
  std::int64_t prefill_budget_, force_after_;
  float served_ratio_;               // the router computes with 32-bit floats
  std::int64_t waiting_tokens_ = 1;  // decodes since the last prefill, plus one
  bool decode_follows_ = false;      // one decode follows a prefill beside a running batch, whatever waits
  bool prefilled_ = false;           // the step in flight is a prefill
};

}  // namespace plimsoll::sched

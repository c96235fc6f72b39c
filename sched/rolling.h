// SPDX-License-Identifier: Apache-2.0
// The rolling batch of DJL Serving / LMI with lmi-dist (0.24, 0.25). The serving side keeps a list of at most
// max_running active requests and sends it to the engine once an iteration; an iteration is up to two forwards: the
// prefill of what is new, then one decode of the others. Admission counts requests, never tokens.
//
// One worker thread with a job queue feeds the list. When the list is full it blocks with a request in
// hand; after 120 s without a free place that request fails with 400 "Time out in: 120" and the worker takes the next
// one.
//
// Nothing looks at memory before an iteration: one that cannot get its KV blocks fails, and all active requests with
// it. The variant `contiguous` (option.paged_attention=false) reserves a slot of the longest sequence instead, and has
// no more active requests than there are slots.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/policy.h"

namespace plimsoll::sched {

class Rolling final : public Policy {
 public:
  explicit Rolling(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_arrival(ReqId id, const View& view, Nanos now) override;
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;
  [[nodiscard]] std::span<const ReqId> batch_order() const override { return active_; }
  [[nodiscard]] std::int64_t queued() const override {
    return std::ssize(queue_) + (held_ == kNoRequest ? 0 : 1) + fresh_;
  }
  void digest(std::string& out) const override;

 private:
  [[nodiscard]] Blk slot_blocks(ReqId id, const View& view) const;
  [[nodiscard]] bool has_place(ReqId id, const View& view) const;
  [[nodiscard]] Nanos next_deadline(Nanos deadline, ReqId next, const View& view) const;
  void expire(const View& view, Nanos until);
  void fill(const View& view, Nanos now);
  void leave(ReqId id, const View& view);
  /// The active requests that the engine has not seen.
  [[nodiscard]] std::span<const ReqId> unseen() const {
    return std::span(active_).last(static_cast<std::size_t>(fresh_));
  }
  [[nodiscard]] Blk prompt_blocks(const View& view) const;
  void fail_all(const View& view);
  void prefill(const View& view, Decision& out);
  void repeat(const View& view, Decision& out) const;

  PolicyConfig config_;
  std::int64_t max_running_, queue_limit_, waiting_steps_;
  bool contiguous_;
  std::vector<ReqId> active_;  // the list; the engine has not seen the last fresh_ of them
  std::int64_t fresh_ = 0;
  Blk slots_ = 0;            // contiguous: blocks of the active requests' slots
  ReqId held_ = kNoRequest;  // the worker stands blocked with this one
  Nanos held_until_ = kNever;
  std::deque<ReqId> queue_;
  std::vector<Reject> rejects_;  // to be said with the next decision
  // waiting_steps: the engine counts its iterations and looks at new requests in every (waiting_steps + 1)-th.
  std::int64_t counter_ = 0;
  bool restarts_counter_ = false;  // the step in flight takes new requests although the counter has not run out
};

}  // namespace plimsoll::sched

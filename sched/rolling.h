// SPDX-License-Identifier: Apache-2.0
// The rolling batch of DJL Serving / LMI with lmi-dist (0.24, 0.25). The serving side keeps a list of at most
// max_running active requests and sends it to the engine once per iteration. An iteration has up to two forwards: the
// prefill of new requests, then one decode of the others. Admission counts requests, never tokens.
//
// One worker thread with a job queue fills the list. When the list is full, the worker blocks while holding the next
// request. If no place becomes free within 120 s, that request fails with 400 "Time out in: 120" and the worker takes
// the next one.
//
// Memory is not checked before an iteration: if an iteration cannot get its KV blocks, it fails with all active
// requests. The variant `contiguous` (option.paged_attention=false) instead reserves a slot of the longest sequence,
// and has at most as many active requests as there are slots.
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

 private:
  [[nodiscard]] Blk slot_blocks(ReqId id, const View& view) const;
  [[nodiscard]] bool has_place(ReqId id, const View& view) const;
  [[nodiscard]] Nanos next_deadline(Nanos deadline, ReqId next, const View& view) const;
  void expire(const View& view, Nanos until);
  void fill(const View& view, Nanos now);
  void leave(ReqId id, const View& view);
  /// Returns the active requests that the engine has not seen.
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
  std::vector<ReqId> active_;  // the list; its last fresh_ requests are unknown to the engine
  std::int64_t fresh_ = 0;
  Blk slots_ = 0;            // contiguous: blocks in the slots of the active requests
  ReqId held_ = kNoRequest;  // the request with which the worker is blocked
  Nanos held_until_ = kNever;
  std::deque<ReqId> queue_;
  std::vector<Reject> rejects_;  // to be reported with the next decision
  // waiting_steps: the engine counts its iterations and admits new requests only in every (waiting_steps + 1)-th.
  std::int64_t counter_ = 0;
  bool restarts_counter_ = false;  // the step in flight admits new requests although the counter has not run out
};

}  // namespace plimsoll::sched

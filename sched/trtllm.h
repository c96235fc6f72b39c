// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM: two stages per step. The capacity stage walks the requests in order of arrival and selects those that
// may run. guaranteed_no_evict admits a request if the pool can hold it up to its cap. max_utilization admits every
// request that fits this step, and pauses the last started ones when a decode no longer fits. static_batch admits only
// when no request runs. The micro-batch stage takes as many of the selected requests as the token budget and the batch
// size allow, in one mixed forward. Between the two, prompts may wait beside running decodes until enough of them fill
// a step (batch_wait_*).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/policy.h"

namespace plimsoll::sched {

class TrtLlm final : public Policy {
 public:
  explicit TrtLlm(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_arrival(ReqId id, const View& view, Nanos now) override;
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_transfer_done(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;
  [[nodiscard]] std::span<const ReqId> batch_order() const override { return started_; }
  [[nodiscard]] std::int64_t queued() const override { return std::ssize(pending_) + std::ssize(offered_); }

 private:
  // Result of the capacity stage.
  struct Capacity {
    std::int64_t admitted = 0;  // how many pending requests, from the front, may run
    std::int64_t members = 0;   // members of the decode group that stay
    bool in_order = true;       // no started request arrived after a pending one
    bool all = false;           // every pending request may run, so the next arrival might too
  };
  [[nodiscard]] Capacity capacity(const View& view, Decision& out);
  void no_evict(const View& view, Capacity& result) const;
  void utilization(const View& view, Decision& out, Capacity& result);
  void hand_over(const View& view, Decision& out);
  void load_offered(const View& view, Blk left, Decision& out);
  [[nodiscard]] bool is_idle(const View& view) const;
  [[nodiscard]] Blk unpromised(const View& view) const;
  void start_in_order(ReqId id);
  struct Walk;
  [[nodiscard]] bool make_room(ReqId id, Blk need, Walk& walk);
  /// Returns the tokens of the budget that are left.
  std::int64_t micro_batch(const View& view, const Capacity& capacity, Decision& out, Forward& forward) const;
  /// Returns whether the prompts of `forward` wait in this step; if so, takes them and their blocks out of the
  /// decision.
  [[nodiscard]] bool hold_prompts(const View& view, const Capacity& capacity, std::size_t kv_before, Decision& out);
  [[nodiscard]] Tok chunk(Tok left, std::int64_t room, const View& view) const;
  void start(const Forward& forward, const View& view);
  void leave(ReqId id, const View& view);
  [[nodiscard]] Blk lifetime_blocks(ReqId id, const View& view) const;
  [[nodiscard]] bool earlier(ReqId a, ReqId b) const { return arrival_[a] < arrival_[b]; }

  CapacityPolicy policy_;
  std::int64_t max_running_, budget_;
  bool chunked_, decodes_only_, keeps_ended_;  // keeps_ended_: blocks of ended requests stay until they have been read
  Tok max_len_;
  std::int64_t wait_steps_;             // prompts wait at most this many steps
  double wait_tokens_;                  // prompts with this many tokens do not wait
  std::int64_t waited_ = 0;             // steps that prompts have waited
  bool holding_ = false;                // whether prompts wait in the step decided last
  std::vector<std::uint64_t> arrival_;  // by ReqId: a number that grows with every arrival
  std::uint64_t arrivals_ = 0;
  std::deque<ReqId> pending_;   // in order of arrival; paused requests return to their place
  std::vector<ReqId> started_;  // in order of arrival
  Blk set_aside_ = 0;           // guaranteed_no_evict, static_batch: lifetime blocks of requests that hold blocks
  // With a prefill pool: requests whose prompt is computed elsewhere. They wait for blocks, then for their KV, then for
  // a place; a request on its way holds blocks, but no place.
  std::deque<ReqId> offered_, ready_;
  std::vector<ReqId> loading_;
};

}  // namespace plimsoll::sched

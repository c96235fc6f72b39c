// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM: two stages a step. The capacity stage walks the requests in order of arrival and says who may run:
// guaranteed_no_evict admits whom it can carry to the end of the cap, max_utilization whoever fits this step (and pauses
// the last started ones when a generation no longer does), static_batch only when nobody runs. The micro-batch stage
// takes from these what the token budget and the batch size allow, in one mixed forward.
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
  void on_arrival(ReqId id, const View&, Nanos) override { pending_.push_back(id); }
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;
  [[nodiscard]] std::span<const ReqId> batch_order() const override { return started_; }
  [[nodiscard]] std::int64_t queued() const override { return std::ssize(pending_); }
  void digest(std::string& out) const override;

 private:
  struct Step {
    std::int64_t admitted = 0;           // pending requests, from the front, that the capacity stage lets in
    std::int64_t members = 0;            // of the decode group that stay
    bool paused = false;
    bool whole_group = true;             // the micro-batch takes every generation
  };
  void capacity_no_evict(const View& view, Step& step) const;
  void capacity_utilization(const View& view, Step& step, Decision& out);
  [[nodiscard]] bool make_room(ReqId id, Blk need, Blk& left, const View& view, Step& step, Decision& out);
  void micro_batch(const View& view, Step& step, Decision& out, Forward& forward);
  void micro_batch_in_order(const View& view, Step& step, Decision& out, Forward& forward);
  void add_context(ReqId id, Tok tokens, const View& view, Decision& out, Forward& forward);
  [[nodiscard]] Tok chunk(Tok left, std::int64_t room, const View& view) const;
  void start_admitted(const Forward& forward);
  [[nodiscard]] Blk lifetime_blocks(ReqId id, const View& view) const;

  CapacityPolicy capacity_;
  std::int64_t max_running_, budget_;
  bool chunked_;
  Tok max_len_;
  std::deque<ReqId> pending_;            // in order of arrival; paused ones go back to their place
  std::vector<ReqId> started_;           // likewise
};

}  // namespace plimsoll::sched

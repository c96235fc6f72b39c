// SPDX-License-Identifier: Apache-2.0
// vLLM before V1. The default of 0.2-0.6 runs prefills or decodes, prefills first; 0.1 adds whole prefills to the
// decodes. With chunked prefill, decodes come first and prompts fill up the token budget. A whole prompt's blocks are
// taken at admission. A decode needs one free block even if its last one has room (block manager v1); if there is none,
// the last of the running requests is preempted. docs/policies.md gives the sources of the rules.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/rows.h"

namespace plimsoll::sched {

class VllmV0 final : public QueuePolicy {
 public:
  explicit VllmV0(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;

 private:
  // A step while it is put together, and what is left to give out.
  struct Step {
    Nanos now;
    const View& view;
    Decision& out;
    Forward& forward;
    std::int64_t budget;  // tokens
    Blk free;
    std::int64_t members;  // members of the decode group that stay in the step
    bool preempted = false;
    std::vector<ReqId> requeued = {};  // preempted by recompute, latest first
  };
  void decide_default(Step& step);
  void schedule_running(Step& step);
  [[nodiscard]] bool schedule_one(ReqId id, Step& step);
  void preempt(ReqId id, Step& step);
  void swap_in(Step& step);
  void schedule_waiting(Step& step);
  [[nodiscard]] Nanos delay_ends(const View& view) const;
  void set_repeat(Nanos now, const View& view, Decision& out) const;
  [[nodiscard]] Blk watermark(const View& view) const;

  PolicyVariant variant_;
  std::int64_t max_running_, budget_;
  double watermark_, delay_factor_;
  bool swaps_;
  Blk swap_blocks_;
  Tok max_len_;
  std::deque<ReqId> swapped_;
  Nanos prompt_started_ = -1, prompt_latency_ = 0;  // start and duration of the last prefill step
};

}  // namespace plimsoll::sched

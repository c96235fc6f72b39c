// SPDX-License-Identifier: Apache-2.0
// vLLM V1: no phases. Each step first gives every running request the tokens it still lacks (one for decodes, a chunk
// of the prompt for others) in order of admission, taking blocks as it goes and preempting from the tail; then, if
// nothing was preempted, admits waiting requests with what is left of the token budget. docs/policies.md has the rules'
// sources.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/kv_preview.h"
#include "sched/policy.h"

namespace plimsoll::sched {

class VllmV1 final : public Policy {
 public:
  explicit VllmV1(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_arrival(ReqId id, const View&, Nanos) override { waiting_.push_back(id); }
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;
  [[nodiscard]] std::span<const ReqId> batch_order() const override { return running_; }
  [[nodiscard]] std::int64_t queued() const override { return std::ssize(waiting_); }
  void digest(std::string& out) const override;

 private:
  // What is left while a step is put together.
  struct Step {
    std::int64_t budget = 0;
    KvPreview kv;
    bool preempted = false;
  };
  [[nodiscard]] std::int64_t chunk(std::int64_t tokens, std::int64_t budget) const;
  void schedule_running(const View& view, Step& step, Decision& out, Forward& forward);
  [[nodiscard]] bool make_room(ReqId id, std::int64_t tokens, const View& view, Step& step, Decision& out);
  void schedule_waiting(const View& view, Step& step, Decision& out, Forward& forward);
  [[nodiscard]] bool admit_head(const View& view, Step& step, Decision& out, Forward& forward);
  void set_repeat(const View& view, const Step& step, Decision& out) const;

  std::int64_t max_running_, budget_, threshold_;
  double watermark_;
  bool chunked_, full_sequence_;
  Tok max_len_;
  std::deque<ReqId> waiting_;
  std::vector<ReqId> running_;
};

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
// vLLM V1: no separate phases. Each step first gives every running request the tokens that it still lacks, in order of
// admission: one for a decode, a chunk of the prompt for the others. It takes blocks and preempts from the tail as
// needed. Then, if nothing was preempted, it admits waiting requests with the rest of the token budget.
// docs/policies.md gives the sources of the rules.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/kv_preview.h"
#include "sched/rows.h"

namespace plimsoll::sched {

class VllmV1 final : public QueuePolicy {
 public:
  explicit VllmV1(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_arrival(ReqId id, const View& view, Nanos) override { enqueue(id, view); }
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;

 private:
  // What is left to give out while a step is put together.
  struct Step {
    std::int64_t budget = 0, threshold = 0;
    KvPreview kv;
    bool preempted = false;
    std::size_t turn = 0;  // index of the running request that is given its tokens now
  };
  // What the step gives to a running request.
  struct Given {
    ReqId id = kNoRequest;
    std::int64_t tokens = 0;
    Tok computed = 0;
    Blk blocks = 0;
    bool covered = false;  // the decision lists when it takes its blocks
    bool lost = false;     // the request was preempted afterwards
  };
  enum class Admission : std::uint8_t { admitted, passed, blocked };
  [[nodiscard]] std::int64_t threshold() const;
  void schedule_running(const View& view, Step& step, Decision& out, Forward& forward);
  void fill(const View& view, Decision& out, Forward& forward) const;
  [[nodiscard]] bool make_room(ReqId id, std::int64_t end, const View& view, Step& step, Decision& out);
  void preempt(std::size_t victim, const View& view, Step& step, Decision& out);
  void cover_decodes(const View& view, Decision& out);
  [[nodiscard]] std::size_t victim(const View& view) const;
  void enqueue(ReqId id, const View& view);
  void schedule_waiting(const View& view, Step& step, Decision& out, Forward& forward);
  [[nodiscard]] Admission load_head(const View& view, Step& step, Decision& out) const;
  [[nodiscard]] Admission admit_head(const View& view, Step& step, Decision& out, Forward& forward);
  void set_repeat(const View& view, const Step& step, Decision& out) const;

  std::int64_t max_running_, budget_, threshold_;
  double watermark_;
  bool chunked_, full_sequence_, by_priority_, loses_rows_, ahead_;
  std::int32_t version_;
  Tok max_len_;
  std::vector<Given> given_;    // for the step that is being put together
  std::vector<ReqId> skipped_;  // skipped by the admissions of this step
  // The number of requests at the front of the queue that the decided step skipped, and whose order it reversed; and
  // whether the first step of the decision is still running.
  std::int64_t turned_ = 0;
  bool first_step_ = false;
};

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
// SGLang: prefills first, decodes otherwise. A request is admitted if what it may still produce fits beside an estimate
// for the running ones: a share (the ratio) of their remaining caps, which decays with every decode step. If a decode
// step runs out of memory after all, requests are retracted, least output and longest input first, and the estimate is
// raised. docs/policies.md gives the sources of the rules.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/kv_preview.h"
#include "sched/policy.h"

namespace plimsoll::sched {

/// Sorts requests so that those to retract first are last: those with the fewest output tokens lose the least work.
/// Among equals, those with the longest prompts free the most blocks.
void sort_for_retraction(std::vector<ReqId>& requests, const View& view);

class SgLang final : public Policy {
 public:
  explicit SgLang(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_arrival(ReqId id, const View&, Nanos) override { arrived_.push_back(id); }
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;
  [[nodiscard]] std::span<const ReqId> batch_order() const override { return running_; }
  [[nodiscard]] std::int64_t queued() const override { return std::ssize(arrived_) + std::ssize(waiting_); }
  /// Returns the share of the running requests' remaining caps that is set aside for them.
  [[nodiscard]] double ratio() const;

 private:
  // What a prefill step has left to give out.
  struct Room {
    double total = 0;                   // tokens of free memory beyond what is set aside
    double current = 0;                 // tokens of free memory
    std::int64_t input = 0, chunk = 0;  // prompt tokens
    Tok block = 1;                      // tokens per KV block
    KvPreview kv;
  };
  // A prefill step while it is decided.
  struct Prefill {
    const View& view;
    Room room;
    Decision& out;
    Forward& forward;
  };
  enum class Verdict : std::uint8_t { go_on, no_memory, other };

  [[nodiscard]] Room room(const View& view) const;
  /// A request that ended in a decode step.
  struct Gone {
    std::size_t place = 0;    // its position in the batch, where departed rows count too
    std::int64_t unused = 0;  // unused tokens of its cap
  };

  [[nodiscard]] std::int64_t rows() const;
  void receive();
  bool filter();
  void schedule_prefill(const View& view, Decision& out, Forward& forward);
  void continue_chunk(Prefill& step);
  [[nodiscard]] Verdict add(ReqId id, Prefill& step);
  void spend(Room& room, std::int64_t tokens, std::int64_t future) const;
  void take(ReqId id, Tok cached, Tok tokens, Prefill& step) const;
  void schedule_decode(const View& view, Decision& out, Forward& forward);
  void retract(const View& view, Decision& out);
  void order_waiting(const View& view);
  void refuse_head_that_never_fits(const View& view, Decision& out);

  std::int64_t max_running_, chunk_tokens_, prefill_tokens_, recv_interval_;
  Tok max_len_;
  bool drops_late_, prefills_only_;
  double init_ratio_, min_ratio_, decay_;
  double base_ratio_;  // the ratio as it was decode_steps_ ago
  std::int64_t decode_steps_ = 0;
  bool last_decoded_ = false;           // the decided step decodes and decays the ratio
  bool full_ = false;                   // batch_is_full: no admission until a request leaves
  bool last_extended_ = false;          // the decided step is a prefill
  bool was_empty_ = false;              // that step has the only rows
  std::vector<Gone> gone_;              // rows that the product drops with its next decode
  ReqId chunked_request_ = kNoRequest;  // its prompt is not yet complete
  std::int64_t since_received_ = 0;     // decode steps since the scheduler last looked for new requests
  std::deque<ReqId> arrived_;           // requests that the scheduler has not seen yet
  std::deque<ReqId> waiting_;
  std::vector<ReqId> running_;
};

}  // namespace plimsoll::sched

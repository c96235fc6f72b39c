// SPDX-License-Identifier: Apache-2.0
// llama.cpp's llama-server: a fixed number of slots, each with an equal share of the context (`slots`) or all with one
// pool (`unified`). A request waits until a slot is free. A step takes one token of every generating slot, then prompt
// tokens in the order of the slots up to the step budget, and runs as several forwards of limited size.
//
// With prefix caching, the last prompt of a free slot stays in it. A request goes to the free slot whose prompt its own
// one shares most with, and does not compute that beginning again.
//
// Not modelled: the cache of prompts in host memory. Requests whose answers would be cut at the end of the slot are
// refused instead. Only the hashes of a prompt's blocks are known, not those of the answer behind it.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/policy.h"

namespace plimsoll::sched {

class LlamaCpp final : public Policy {
 public:
  explicit LlamaCpp(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_arrival(ReqId id, const View& view, Nanos now) override;
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;
  [[nodiscard]] std::span<const ReqId> batch_order() const override { return running_; }
  [[nodiscard]] std::int64_t queued() const override { return std::ssize(queue_) + std::ssize(deferred_); }

 private:
  struct Slot {
    ReqId id = kNoRequest;      // the request that it serves
    std::int64_t released = 0;  // when it was last used, in the order of all releases; 0: never
    // With prefix caching: its last prompt by the hashes of its blocks, and how many tokens it stores while it is free.
    std::vector<std::uint64_t> prompt;
    std::int64_t stored = 0;
    Tok kept = 0;  // tokens that its request finds in it, until the decision that assigns it is made
  };
  /// The tokens that one slot has in a step.
  struct Part {
    std::size_t slot = 0;
    ReqId id = kNoRequest;
    Tok context = 0, left = 0;  // cached tokens, and tokens that are in no forward yet
    bool decodes = false;
    bool completes = false;  // the prompt ends with this step
  };

  [[nodiscard]] std::int64_t slot_cells(const KvLedger& kv) const;
  [[nodiscard]] std::size_t free_slots() const { return slots_.size() - running_.size(); }
  void release(std::size_t slot, std::int64_t stored);
  void assign(ReqId id, const View& view);
  [[nodiscard]] static Tok common(const Slot& slot, ReqId id, const View& view);
  [[nodiscard]] std::size_t most_similar(ReqId id, const View& view) const;
  [[nodiscard]] std::size_t least_recent() const;
  void keep_prompts(Decision& out);
  void purge(const KvLedger& kv, std::int64_t wanted);
  void collect_parts(const View& view);
  /// Unified: blocks that the step needs; the prompts' operations are appended.
  [[nodiscard]] Blk grow_prompts(const View& view, Decision& out) const;
  void fail_all(Nanos now, Decision& out);
  void add_forwards(const View& view, Decision& out);
  void take_in_order(Forward& forward);
  void take_equally(Forward& forward);
  static void take(Part& part, Tok tokens, Forward& forward);

  bool unified_;
  std::int64_t step_tokens_, forward_tokens_, max_len_;
  float similarity_;  // a slot matches if it shares more than this fraction of the new prompt; a float in the server
  std::vector<Slot> slots_;
  std::vector<ReqId> running_;  // in the order of the slots
  std::deque<ReqId> queue_;     // each has a free slot
  std::deque<ReqId> deferred_;  // arrived when no slot was free
  std::int64_t releases_ = 0;
  std::vector<Part> parts_;            // of the step that is being decided
  std::vector<std::size_t> together_;  // parts that share a forward
};

}  // namespace plimsoll::sched

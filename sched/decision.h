// SPDX-License-Identifier: Apache-2.0
// What a policy decides: KV operations, then forwards that run back to back as ONE step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/types.h"

namespace plimsoll::sched {

/// `new_tokens` prompt (or recomputed) tokens of one request on top of `context` cached ones. `emits` when this
/// completes the (re)prefill: context + new_tokens = length, and an output token is sampled. With a request that the
/// same decision preempts, the row is computed without KV: its tokens count as computed, as in vLLM 0.11 by priority.
struct Segment {
  ReqId id = kNoRequest;
  Tok new_tokens = 0, context = 0;
  bool emits = false;
};

/// Which requests decode one token: none, the whole decode group, or those listed (members of the group).
enum class Decodes : std::uint8_t { none, group, listed };

/// One forward pass of a step: prompts, and decodes of the group or of a list.
struct Forward {
  std::vector<Segment> prefill;  // in batch order
  Decodes decodes = Decodes::none;
  std::vector<ReqId> listed;  // with Decodes::listed, in batch order
  /// Static batching: with prefill, every row is charged this many tokens; with decodes, every row (dead ones included)
  /// attends to this many tokens in the first of the repeated steps, one more in each further one. 0: rows are ragged.
  Tok padded = 0;
  std::vector<ReqId> dead;  // rows that have finished and are still computed
  void clear() {
    prefill.clear();
    decodes = Decodes::none;
    listed.clear();
    padded = 0;
    dead.clear();
  }
};

/// Applied in this order: all of free_all and swap_out, then the others (with Traits::block_by_block: all as they
/// stand), then the implied growth of rows that decode (a decode row always ends up covering computed + 1 tokens).
struct KvOp {
  enum class Kind : std::uint8_t {
    grow,           // on demand, until the request covers `tokens` tokens; of a decode: it takes its blocks already now
    reserve,        // for life, `tokens` tokens
    attach_prefix,  // take `tokens` tokens from the prefix cache (computed becomes `tokens`)
    free_all,       // preemption by recompute: everything goes back, computed becomes 0, output is kept; with `tokens`
                    // this very decision had made the request cover so many
    swap_out,
    swap_in
  };
  Kind kind = Kind::grow;
  ReqId id = kNoRequest;
  std::int64_t tokens = 0;
};

/// A request that is refused. `code` is a short stable name with static storage ("overloaded").
struct Reject {
  ReqId id = kNoRequest;
  std::uint16_t http = 0;
  const char* code = "";
  bool waited = false;  // too long, whatever the status says

  /// It was refused for its length: even an empty engine would refuse it (docs/policies.md, Refusals).
  [[nodiscard]] bool is_for_length() const { return !waited && (http == 400 || http == 422 || http == 500); }
};

/// What the next step does. Storage is kept between decisions, so that deciding allocates nothing.
struct Decision {
  std::vector<KvOp> kv;
  std::vector<ReqId> preempted;  // by recompute or swap-out, in the order it happened
  std::vector<ReqId> swapped_in;
  std::vector<Reject> rejects;  // waiting or running requests that end now
  Nanos wake_at = kNever;       // decide again at this time even if nothing happens
  /// Further identical steps the policy would take if nothing arrives, finishes or is cancelled: every member of the
  /// decode group decodes one more token in each. Only for a step that is one forward with Decodes::group and no
  /// prefill. May be smaller than the truth, never larger. Repeats end at the first step boundary at or after wake_at.
  std::int64_t repeat = 0;
  bool arrival_breaks = true;  // whether an arrival can change the repeated steps

  /// The forwards in use. Storage of earlier decisions is reused.
  [[nodiscard]] std::span<const Forward> forwards() const { return {forwards_.data(), used_}; }
  [[nodiscard]] std::span<Forward> edit_forwards() { return {forwards_.data(), used_}; }
  [[nodiscard]] Forward& add_forward() {
    if (used_ == forwards_.size()) forwards_.emplace_back();
    forwards_[used_].clear();
    return forwards_[used_++];
  }
  /// Takes back the forward added last.
  void drop_forward() { --used_; }
  [[nodiscard]] bool has_step() const { return used_ > 0; }
  void clear() {
    kv.clear();
    preempted.clear();
    swapped_in.clear();
    rejects.clear();
    wake_at = kNever;
    repeat = 0;
    arrival_breaks = true;
    used_ = 0;
  }

 private:
  std::vector<Forward> forwards_;
  std::size_t used_ = 0;
};

}  // namespace plimsoll::sched

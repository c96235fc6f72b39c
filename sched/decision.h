// SPDX-License-Identifier: Apache-2.0
// What a policy decides: KV operations, then forwards that run back to back as ONE step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/types.h"

namespace plimsoll::sched {

/// Computes `new_tokens` prompt (or recomputed) tokens of one request on top of `context` cached ones. `emits`: this
/// completes the (re)prefill, so context + new_tokens = length, and an output token is sampled. If the same decision
/// preempts the request, the row is computed without KV and its tokens still count as computed, as in vLLM 0.11 with
/// priorities.
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
  /// Static batching: a prefill charges every row this many tokens. With decodes, every row (dead ones included)
  /// attends to this many tokens in the first of the repeated steps. Each further step adds one. 0: no padding.
  Tok padded = 0;
  std::vector<ReqId> dead;  // rows that have finished but are still computed
  void clear() {
    prefill.clear();
    decodes = Decodes::none;
    listed.clear();
    padded = 0;
    dead.clear();
  }
};

/// Operations are applied in this order: all free_all and swap_out, then the others (with Traits::block_by_block: all
/// in the given order), then the implied growth of decoding rows (a decoding row always ends up covering computed + 1
/// tokens).
struct KvOp {
  enum class Kind : std::uint8_t {
    grow,           // on demand, until the request covers `tokens` tokens; a decode takes its blocks now
    reserve,        // for life, `tokens` tokens
    attach_prefix,  // take `tokens` tokens from the prefix cache (computed becomes `tokens`)
    keep,           // the request's slot still holds its first `tokens` tokens (computed becomes `tokens`); the request
                    // has taken the room for them by grow or reserve
    free_all,       // preemption by recompute: all blocks are freed, computed becomes 0, output is kept; `tokens`, if
                    // not 0, is the number of tokens that the same decision had made the request cover
    swap_out,
    swap_in,
    load  // on demand, until the request covers `tokens` tokens, whose KV a prefill replica sends (Replica::loads)
  };
  Kind kind = Kind::grow;
  ReqId id = kNoRequest;
  std::int64_t tokens = 0;
};

/// A refused request. `code` is a short stable name with static storage ("overloaded").
struct Reject {
  ReqId id = kNoRequest;
  std::uint16_t http = 0;
  const char* code = "";
  bool waited = false;  // it has waited too long, whatever `http` says

  /// Returns whether it was refused for its length: even an empty engine would refuse it (docs/policies.md, Refusals).
  [[nodiscard]] bool is_for_length() const { return !waited && (http == 400 || http == 422 || http == 500); }
};

/// What a policy decides at one moment. The object is reused, so that its vectors keep their storage.
struct Decision {
  std::vector<KvOp> kv;
  std::vector<ReqId> preempted;  // by recompute or swap-out, in order of preemption
  std::vector<ReqId> swapped_in;
  /// Requests whose prompt and first token came from a prefill replica: from this step on they are in the decode group.
  std::vector<ReqId> joined;
  std::vector<Reject> rejects;  // waiting or running requests that end now
  Nanos wake_at = kNever;       // decide again at this time even if nothing happens
  /// How many further identical steps the policy would take if nothing arrives, finishes or is cancelled; in each one,
  /// every member of the decode group decodes one more token. Only for a step that is one forward with Decodes::group
  /// and no prefill. May be too small, never too large. Repeats end at the first step boundary at or after wake_at.
  std::int64_t repeat = 0;
  bool arrival_breaks = true;  // whether an arrival can change the repeated steps

  /// The forwards of this decision. Storage of earlier decisions is reused.
  [[nodiscard]] std::span<const Forward> forwards() const { return {forwards_.data(), used_}; }
  [[nodiscard]] std::span<Forward> edit_forwards() { return {forwards_.data(), used_}; }
  /// Appends an empty forward and returns it. The reference is valid until the next call.
  [[nodiscard]] Forward& add_forward() {
    if (used_ == forwards_.size()) forwards_.emplace_back();
    forwards_[used_].clear();
    return forwards_[used_++];
  }
  /// Removes the forward added last.
  void drop_forward() { --used_; }
  [[nodiscard]] bool has_step() const { return used_ > 0; }
  void clear() {
    kv.clear();
    preempted.clear();
    swapped_in.clear();
    joined.clear();
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

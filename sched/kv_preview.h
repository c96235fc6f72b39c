// SPDX-License-Identifier: Apache-2.0
// The KV ledger as it will be after what a decision has asked for so far. Where requests share blocks that cannot be
// told from counts alone: who else holds a preempted request's blocks, whether a block taken meanwhile was the cached
// one that the next request wants.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "sched/kv_ledger.h"

namespace plimsoll::sched {

class KvPreview {
 public:
  explicit KvPreview(const KvLedger& kv) : kv_(kv), free_(kv.free()) {}
  /// See KvLedger::free and prefix_hit.
  [[nodiscard]] Blk free() const { return free_; }
  [[nodiscard]] PrefixHit prefix_hit(ReqId id, Tok limit);

  /// Somebody grows by this much; at most free().
  void take(Blk blocks);
  /// After a hit of at least `tokens` tokens.
  void attach_prefix(ReqId id, Tok tokens);
  /// All that the request holds goes back. Call before attach_prefix: what is given back now is not found again.
  void release(ReqId id);

 private:
  void play();
  [[nodiscard]] std::int32_t holders(std::int32_t hashed) const;

  const KvLedger& kv_;
  Blk free_;
  // The rest is for prefix caching only. Elements and hashed blocks are indices into the PrefixCache.
  Blk unplayed_ = 0;           // taken, but the queue of idle blocks has not been walked yet
  std::int32_t element_ = -1;  // where the walk stands
  bool walking_ = false;
  Blk passed_of_element_ = 0;
  std::unordered_set<std::int32_t> lost_, lost_runs_;      // hashed blocks and own runs that the walk has passed
  std::unordered_map<std::int32_t, std::int32_t> joined_;  // more (or fewer) holders of a hashed block
  std::unordered_map<std::int32_t, Blk> attached_;         // blocks of an own run that its request has taken back
};

}  // namespace plimsoll::sched

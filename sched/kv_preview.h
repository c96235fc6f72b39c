// SPDX-License-Identifier: Apache-2.0
// The KV ledger as it will be once the operations that a decision has asked for so far are applied. Counts alone cannot
// tell that where requests share blocks: other requests may hold a preempted request's blocks, and a block taken
// meanwhile may be the cached one that the next request wants.
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

  /// A request grows by this much; at most free().
  void take(Blk blocks);
  /// After a hit of at least `tokens` tokens.
  void attach_prefix(ReqId id, Tok tokens);
  /// All that the request holds goes back. Call before attach_prefix: what is given back now is not found again.
  void release(ReqId id);

 private:
  /// What the decision changes of a hashed run.
  struct Changed {
    std::int32_t holders = 0;  // more or fewer of the whole run
    Blk joined = 0;            // leading blocks that requests of this decision attach
    Blk lost = 0;              // last blocks that it takes
  };

  void play();
  [[nodiscard]] Changed changed(std::int32_t run) const;
  [[nodiscard]] Blk idle(std::int32_t run, Blk blocks) const;

  const KvLedger& kv_;
  Blk free_;
  // The rest is for prefix caching only. Runs are indices into the PrefixCache.
  Blk unplayed_ = 0;       // taken, but the queue of idle blocks has not been walked yet
  std::int32_t run_ = -1;  // where the walk is
  bool walking_ = false;
  Blk passed_ = 0;  // blocks of that run
  std::unordered_map<std::int32_t, Changed> changed_;
  std::unordered_set<std::int32_t> lost_own_;       // own runs that the walk has passed
  std::unordered_map<std::int32_t, Blk> attached_;  // blocks of an own run that its request has taken back
};

}  // namespace plimsoll::sched

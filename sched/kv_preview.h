// SPDX-License-Identifier: Apache-2.0
// The KV ledger as it will be once the operations that a decision has asked for so far are applied. Counts alone cannot
// tell that where requests share blocks: other requests may hold a preempted request's blocks, and a block taken
// meanwhile may be the cached one that the next request wants.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sched/kv_ledger.h"

namespace plimsoll::sched {

/// A policy plays its decision here before it is applied: what is free, and which prefixes are still found.
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
  /// The request's tokens up to `end` get their content in this step, and other requests may share them at once.
  void publish(ReqId id, std::int64_t end) {
    if (kv_.prefix_caching()) published_.push_back({id, end});
  }
  /// All that the request holds goes back, with `taken` blocks that this decision gave it. Call before attach_prefix:
  /// what is given back now is not found again.
  void release(ReqId id, Blk taken = 0);

 private:
  /// What the decision changes of a hashed run.
  struct Changed {
    std::int32_t holders = 0;  // more or fewer of the whole run
    Blk joined = 0;            // leading blocks that requests of this decision attach
    Blk lost = 0;              // last blocks that it takes
  };

  /// Neighbouring blocks of one copy of a run.
  struct Part {
    std::int32_t run = -1;
    Blk begin = 0, end = 0;
  };

  void play();
  void find_published();
  template <class Visit>
  std::size_t for_hit(ReqId id, std::size_t most, Visit visit);
  [[nodiscard]] Changed changed(std::int32_t run) const;
  [[nodiscard]] Blk idle(const Part& part) const;

  const KvLedger& kv_;
  Blk free_;
  // The rest is for prefix caching only. Runs are indices into the PrefixCache.
  Blk unplayed_ = 0;       // taken, but the queue of idle blocks has not been walked yet
  std::int32_t run_ = -1;  // where the walk is
  bool walking_ = false;
  Blk passed_ = 0;  // blocks of that run
  std::unordered_map<std::int32_t, Changed> changed_;
  std::vector<std::pair<ReqId, std::int64_t>> published_;  // not yet in found_
  std::unordered_set<std::uint64_t> found_;                // blocks published in this step
};

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
// The KV ledger as it will be once the operations that a decision has requested so far are applied. If requests share
// blocks, block counts do not suffice: others may hold the blocks of a preempted request, and a block taken meanwhile
// may be the cached one that the next request wants.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sched/kv_ledger.h"

namespace plimsoll::sched {

/// Lets a policy simulate its decision before it is applied: which blocks are free, and which prefixes are still found.
class KvPreview {
 public:
  explicit KvPreview(const KvLedger& kv) : kv_(kv), free_(kv.free()) {}
  /// See KvLedger::free and prefix_hit.
  [[nodiscard]] Blk free() const { return free_; }
  [[nodiscard]] PrefixHit prefix_hit(ReqId id, Tok limit);

  /// Takes `blocks` more blocks for a request; at most free().
  void take(Blk blocks);
  /// Attaches `tokens` tokens; prefix_hit() must have found at least as many.
  void attach_prefix(ReqId id, Tok tokens);
  /// Records that this step computes the request's tokens up to `end`: other requests may share them at once.
  void publish(ReqId id, std::int64_t end) {
    if (kv_.prefix_caching()) published_.push_back({id, end});
  }
  /// Returns all blocks of the request, including `taken` blocks that this decision gave it. Call before
  /// attach_prefix(): look-ups of this decision do not find the returned blocks.
  void release(ReqId id, Blk taken = 0);

 private:
  /// How the decision changes a hashed run.
  struct Changed {
    std::int32_t holders = 0;  // change in the number of holders of the whole run
    Blk joined = 0;            // leading blocks that requests of this decision attach
    Blk lost = 0;              // blocks at its end that the decision takes
  };

  /// Neighbouring blocks of one copy of a run.
  struct Part {
    std::int32_t run = -1;
    Blk begin = 0, end = 0;
  };

  /// Blocks of a request that this step publishes.
  struct Published {
    std::size_t from = 0;                   // the first one
    std::span<const std::uint64_t> hashes;  // of all its blocks up to the last one
  };

  void play();
  void find_published();
  [[nodiscard]] bool is_published(std::size_t block, std::uint64_t hash) const;
  template <class Visit>
  std::size_t for_hit(ReqId id, std::size_t most, Visit visit);
  [[nodiscard]] Changed changed(std::int32_t run) const;
  [[nodiscard]] Blk idle(const Part& part) const;

  const KvLedger& kv_;
  Blk free_;
  // The rest is for prefix caching only. Runs are indices into the PrefixCache.
  Blk unplayed_ = 0;       // blocks taken but not yet walked in the queue of idle blocks
  std::int32_t run_ = -1;  // the run at which the walk is
  bool walking_ = false;
  Blk passed_ = 0;  // blocks of that run that the walk has taken
  std::unordered_map<std::int32_t, Changed> changed_;
  std::vector<std::pair<ReqId, std::int64_t>> published_;  // not yet added to found_
  std::vector<Published> found_;                           // content that this step publishes
};

}  // namespace plimsoll::sched

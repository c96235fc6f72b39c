// SPDX-License-Identifier: Apache-2.0
// Names the physical KV blocks behind what sched::KvLedger counts. The ledger decides; the pool follows the same
// operations in the same order and never holds more than the ledger says.
//
// With prefix caching, blocks with known content are found by their hash, the one that was published first, and count
// their holders. Idle blocks, those without a holder, form a queue in exactly the order of sched::PrefixCache and are
// reused from its head. A hit of the ledger is therefore still in memory, and only blocks that the ledger has evicted
// are overwritten. Idle blocks without content are interchangeable: the queue only counts them, and the most recently
// freed one is reused first. Memory that was never needed is never touched, and a reused block may still be in the
// processor's caches.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sched/types.h"

namespace plimsoll::exec {

using sched::Blk;
using sched::ReqId;
using sched::Tok;

/// One thread at a time. Aborts if it runs out of blocks; the ledger prevents that.
class BlockPool {
 public:
  /// `partial_first`: as sched::KvConfig::partial_first.
  BlockPool(Blk blocks, Tok block_tokens, bool prefix_caching, bool partial_first = false);

  /// A request appears, with the hashes of its whole prompt blocks (sched::block_hashes).
  void open(ReqId id, std::span<const std::uint64_t> prompt_hashes);
  /// Blocks in the order of the sequence's positions. Valid until the next operation on this request.
  [[nodiscard]] std::span<const std::int32_t> table(ReqId id) const { return requests_[id].table; }
  [[nodiscard]] Blk held(ReqId id) const { return static_cast<Blk>(requests_[id].table.size()); }
  /// Blocks that can be taken, including idle blocks of the cache.
  [[nodiscard]] Blk free() const { return free_; }

  /// Takes blocks until the request covers `tokens` tokens.
  void cover(ReqId id, std::int64_t tokens);
  /// Shares the cached blocks of the first `tokens` tokens, which the ledger found to be a hit.
  void attach_prefix(ReqId id, Tok tokens);
  /// The first `computed` tokens have content: whole blocks of the prompt become findable.
  void publish(ReqId id, Tok computed);
  /// Frees all blocks of the request, whose first `computed` tokens have content. With `returns` it may later find that
  /// content again.
  void release(ReqId id, Tok computed, bool returns = true);
  /// Drops all memory of the request. Call after release().
  void close(ReqId id);

 private:
  static constexpr std::int32_t kNone = -1;
  struct Place {  // in the queue of idle blocks
    std::int32_t previous = kNone, next = kNone;
    std::int32_t block = kNone;  // with content; kNone: a run of blocks without
    Blk count = 0;               // of that run
  };
  struct Block {
    std::int32_t place = kNone;  // of an idle block with content
    std::int32_t holders = 0;    // of a hashed block
    std::uint64_t hash = 0;
    bool hashed = false;
  };
  struct Held {
    std::vector<std::int32_t> table;
    std::vector<std::uint64_t> hashes;
    std::size_t published = 0;   // leading blocks that publish() has handled
    std::uint64_t identity = 0;  // what the hashes of its own blocks are made from; 0: it has none yet
  };

  [[nodiscard]] Block& block(std::int32_t index) { return blocks_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] Place& place(std::int32_t index) { return places_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::int32_t new_place(bool at_head);
  void unlink(std::int32_t place);
  void give_back(std::int32_t index, bool at_head);
  void keep_idle(std::int32_t index);
  void take_idle(std::int32_t index);
  [[nodiscard]] std::int32_t take();

  Tok block_tokens_;
  bool caching_, partial_first_;
  std::uint64_t identities_ = 0;
  Blk free_;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> blank_;  // idle blocks without content, as many as the runs of the queue count
  std::vector<Place> places_;
  std::vector<std::int32_t> unused_places_;
  std::vector<Held> requests_;                                            // by ReqId
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> by_hash_;  // in the order of publishing
  std::int32_t head_ = kNone, tail_ = kNone;
};

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Assigns physical blocks to the KV blocks that sched::KvLedger counts. The ledger decides. The pool follows the same
// operations in the same order and never holds more blocks than the ledger counts.
//
// With prefix caching, blocks with known content are found by their hash and count the requests that hold them. Of
// several blocks with the same hash, the one published first is found. Idle blocks, those without a holder, form a
// queue in exactly the order of sched::PrefixCache and are reused from its head. A hit of the ledger is therefore still
// in memory, and only blocks that the ledger has evicted are overwritten. Idle blocks without content are
// interchangeable: the queue only counts them, and the most recently freed one is reused first. So memory that was
// never needed is never touched, and a reused block may still be in a CPU cache.
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

  /// Adds a request, with the hashes of all full blocks of its prompt (sched::block_hashes).
  void open(ReqId id, std::span<const std::uint64_t> prompt_hashes);
  /// Returns the request's blocks in order of position. Valid until the next operation on this request.
  [[nodiscard]] std::span<const std::int32_t> table(ReqId id) const { return requests_[id].table; }
  [[nodiscard]] Blk held(ReqId id) const { return static_cast<Blk>(requests_[id].table.size()); }
  /// Returns the number of blocks that can be taken, including idle blocks of the cache.
  [[nodiscard]] Blk free() const { return free_; }

  /// Takes blocks until the request covers `tokens` tokens.
  void cover(ReqId id, std::int64_t tokens);
  /// Shares the cached blocks of the first `tokens` tokens, which the ledger found to be a hit.
  void attach_prefix(ReqId id, Tok tokens);
  /// The first `computed` tokens now have content: the full prompt blocks among them become findable.
  void publish(ReqId id, Tok computed);
  /// Frees all blocks of the request, whose first `computed` tokens have content. With `returns`, the request may come
  /// back and find that content again.
  void release(ReqId id, Tok computed, bool returns = true);
  /// Drops all memory of the request. Call after release().
  void close(ReqId id);

 private:
  static constexpr std::int32_t kNone = -1;
  struct Place {  // of the queue of idle blocks
    std::int32_t previous = kNone, next = kNone;
    std::int32_t block = kNone;  // a block with content; kNone for a run of blocks without
    Blk count = 0;               // length of that run
  };
  struct Block {
    std::int32_t place = kNone;  // in the queue, for an idle block with content
    std::int32_t holders = 0;    // requests that hold this hashed block
    std::uint64_t hash = 0;
    bool hashed = false;
  };
  struct Held {
    std::vector<std::int32_t> table;
    std::vector<std::uint64_t> hashes;
    std::size_t published = 0;   // leading blocks that publish() has handled
    std::uint64_t identity = 0;  // seed for the hashes of its own blocks; 0 if none yet
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
  std::vector<std::int32_t> blank_;  // idle blocks without content, in number the sum of all runs in the queue
  std::vector<Place> places_;
  std::vector<std::int32_t> unused_places_;
  std::vector<Held> requests_;                                            // indexed by ReqId
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> by_hash_;  // per hash, in order of publishing
  std::int32_t head_ = kNone, tail_ = kNone;
};

}  // namespace plimsoll::exec

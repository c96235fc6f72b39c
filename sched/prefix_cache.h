// SPDX-License-Identifier: Apache-2.0
// KV content that outlives its request and can be found again: by later requests with the same prompt prefix, or by a
// preempted request itself.
//
// Blocks that nobody holds stand in a queue, least recently freed first; a block is reused from its head and loses its
// content then (vLLM's free-block queue; a request's blocks go back tail first). Only blocks with a known prompt hash
// are kept one by one. Blocks whose content nobody can ever ask for, and the own blocks of a preempted request, stand
// in the queue as runs with a count, so that a workload that shares nothing costs next to nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/block_index.h"
#include "sched/types.h"

namespace plimsoll::sched {

struct PrefixHit;

/// Hashes of the whole KV blocks of a prompt of `input` tokens, from a trace's hashes: each of those stands for
/// `hash_block_tokens` tokens and, by chaining, for all before them. None without hashes.
[[nodiscard]] std::vector<std::uint64_t> block_hashes(std::span<const std::uint64_t> prefix_hashes,
                                                      Tok hash_block_tokens, Tok input, Tok block_tokens);

class PrefixCache {
 public:
  PrefixCache(Blk blocks, Tok block_tokens);
  /// `prompt_hashes`: of the request's whole prompt blocks, as far as they are known.
  void open(ReqId id, std::span<const std::uint64_t> prompt_hashes);
  /// See KvLedger::prefix_hit.
  [[nodiscard]] PrefixHit hit(ReqId id, Tok limit) const;
  /// Takes blocks from the head of the queue; whoever they go to, their content is lost.
  void take(Blk blocks);
  /// Shares the blocks of the first `tokens` tokens; returns how many of them were idle until now.
  Blk attach(ReqId id, Tok tokens);
  /// Whole prompt blocks up to `computed` become findable.
  void publish(ReqId id, Tok computed);
  /// Gives the request's `held` blocks back; what was published stays findable, and so do, for the request itself, its
  /// other whole blocks up to `computed`. Returns how many blocks became idle.
  Blk release(ReqId id, Blk held, Tok computed);
  void close(ReqId id);

 private:
  friend class KvPreview;
  enum class Kind : std::uint8_t { anonymous, own, hashed };
  struct Element {  // a block with a known hash, held or idle; or an idle run of others
    std::uint64_t hash = 0;
    Blk count = 0;               // blocks of a run; 1 for hashed
    std::int32_t what = -1;      // own: the request; hashed: its own index
    std::int32_t holders = 0;    // of a hashed block; it is in the queue when nothing holds it
    std::int32_t follower = -1;  // of a hashed block: the block that was found behind it last, where it may be again
    std::int32_t previous = -1, next = -1;
    Kind kind = Kind::anonymous;
  };
  struct Holder {
    std::vector<std::uint64_t> hashes;
    std::vector<std::int32_t>
        published;          // by position: a hashed element, or -1 where another had the same content first
    std::int32_t own = -1;  // element of the own run while preempted; it begins at position own_begin
    std::size_t own_begin = 0;
  };

  [[nodiscard]] std::int32_t find_behind(std::int32_t before, std::uint64_t hash) const;
  std::int32_t new_element();
  std::int32_t push_idle(Kind kind, Blk count, std::int32_t what);
  void link(std::int32_t element);
  void unlink(std::int32_t element);
  void drop(std::int32_t element);
  void evict_head();

  Tok block_tokens_;
  mutable std::vector<Element> elements_;  // a look-up remembers what follows what
  std::vector<std::int32_t> free_elements_;
  std::vector<Holder> holders_;  // by ReqId
  BlockIndex by_hash_;           // hashed elements
  std::int32_t head_ = -1, tail_ = -1;
};

}  // namespace plimsoll::sched

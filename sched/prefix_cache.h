// SPDX-License-Identifier: Apache-2.0
// KV content that outlives its request and can be found again: by later requests with the same prompt prefix, or by a
// preempted request itself.
//
// The cache keeps runs of blocks, not blocks. A run of known content is a piece of a sequence: neighbouring blocks that
// the same requests hold. It is found by the hash of its first block and compared from there on, so that a prompt costs
// a look-up a run. Runs are split where a request shares only their beginning, as the edges of a radix tree are.
//
// Requests that compute the same content at the same time keep a copy each. Copies of a run are equally long; the first
// one that was published is found. A block's hash tells all blocks before it, so it is in the runs of one content only:
// as their first block, or directly behind its predecessor.
//
// Idle blocks wait in a queue, least recently freed first. A block is reused from its head and loses its content then
// (vLLM's free-block queue; a request's blocks go back tail first). Blocks that no request can ask for are runs without
// hashes. From vLLM 0.24 on, blocks whose content is not complete go to the head of the queue.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/block_index.h"
#include "sched/by_request.h"
#include "sched/types.h"

namespace plimsoll::sched {

struct PrefixHit;

/// Hashes of the whole KV blocks of a prompt of `input` tokens, from a trace's hashes, each for `hash_block_tokens`
/// tokens. Each result depends on all before it: equal ones have equal beginnings. None without hashes.
[[nodiscard]] std::vector<std::uint64_t> block_hashes(std::span<const std::uint64_t> prefix_hashes,
                                                      Tok hash_block_tokens, Tok input, Tok block_tokens);

class PrefixCache {
 public:
  /// `partial_first`: blocks without complete content are reused first.
  PrefixCache(Blk blocks, Tok block_tokens, bool partial_first = false);
  /// `prompt_hashes`: of the request's whole prompt blocks, as far as they are known. A hash tells the whole beginning
  /// of the prompt up to its block, not the block alone.
  void open(ReqId id, std::span<const std::uint64_t> prompt_hashes);
  /// See KvLedger::prefix_hit.
  [[nodiscard]] PrefixHit hit(ReqId id, Tok limit) const;
  /// Takes blocks from the head of the queue. Their content is lost.
  void take(Blk blocks);
  /// Shares the blocks of the first `tokens` tokens; returns how many of them were idle until now.
  Blk attach(ReqId id, Tok tokens);
  /// Whole blocks with known hashes up to `computed` become findable.
  void publish(ReqId id, Tok computed);
  /// Gives the request's `held` blocks back; what was published stays findable. Its first `computed` tokens are
  /// complete; with `returns` the request itself may find them again. Returns how many blocks became idle.
  Blk release(ReqId id, Blk held, Tok computed, bool returns);
  void close(ReqId id);

 private:
  friend class KvPreview;
  [[nodiscard]] static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
  enum class Kind : std::uint8_t { anonymous, hashed };
  struct Run {
    std::vector<std::uint64_t> hashes;  // of a hashed run, as many as `count`
    Blk count = 0;                      // blocks
    std::int32_t holders = 0;           // of a hashed run, which is in the queue when nothing holds it
    std::int32_t rest = -1;             // of a hashed run: what was split off its end, while a request holds both
    std::int32_t twin = -1;             // of a hashed run: the copy that was published next
    std::int32_t previous = -1, next = -1;
    Kind kind = Kind::anonymous;
  };
  /// Neighbouring published blocks of a request: of a run and, where they are more, of what was split off it.
  struct Piece {
    std::int32_t run = -1;
    Blk count = 0;
  };
  struct Holder {
    std::vector<std::uint64_t> hashes;
    std::vector<Piece> pieces;
    std::size_t published = 0;   // blocks of all pieces
    std::uint64_t identity = 0;  // what the hashes of its own blocks are made from; 0: it has none yet
  };
  struct Match {
    std::int32_t run = -1;   // none: -1
    std::size_t blocks = 0;  // of its beginning
  };

  [[nodiscard]] Match match(const Holder& holder, std::size_t from, std::size_t end) const;
  template <class Visit>
  void for_parts(const Piece& piece, Visit visit) const;
  void publish_copy(Holder& holder, const Match& other);
  void publish_fresh(Holder& holder, std::size_t end);
  void add_own_hashes(Holder& holder, std::size_t blocks);
  std::int32_t new_run();
  std::int32_t new_hashed(const Holder& holder, std::size_t from, std::size_t to);
  void push_idle(Blk count, bool at_head);
  void split(std::int32_t first, std::size_t blocks);
  std::int32_t split_one(std::int32_t run, std::size_t blocks);
  void link(std::int32_t run, std::int32_t before);
  void unlink(std::int32_t run);
  void evict_head();

  Tok block_tokens_;
  bool partial_first_;
  std::uint64_t identities_ = 0;
  std::vector<Run> runs_;
  std::vector<std::int32_t> free_runs_;
  ByRequest<Holder> holders_;        // of those with known hashes
  std::vector<std::int32_t> parts_;  // scratch
  BlockIndex by_hash_;               // the first copy of a hashed run, by its first block
  std::int32_t head_ = -1, tail_ = -1;
};

/// Visits the runs of a piece in the order of the prompt.
template <class Visit>
void PrefixCache::for_parts(const Piece& piece, Visit visit) const {
  Blk left = piece.count;
  for (std::int32_t run = piece.run; left > 0; run = runs_[static_cast<std::size_t>(run)].rest) {
    visit(run);
    left -= runs_[static_cast<std::size_t>(run)].count;
  }
}

}  // namespace plimsoll::sched

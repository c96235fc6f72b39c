// SPDX-License-Identifier: Apache-2.0
// KV content that outlives its request and can be found again: by later requests with the same prompt prefix, or by a
// preempted request itself.
//
// The cache keeps runs of blocks, not blocks. A run of known content is a piece of a prompt: neighbouring blocks that
// the same requests hold. It is found by the hash of its first block and compared from there on, so that a prompt costs
// a look-up a run. Runs are split where a request shares only their beginning, as the edges of a radix tree are.
//
// Idle blocks wait in a queue, least recently freed first. A block is reused from its head and loses its content then
// (vLLM's free-block queue; a request's blocks go back tail first). Blocks whose content no request can ask for, and
// the own blocks of a preempted request, are runs without hashes.
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
  PrefixCache(Blk blocks, Tok block_tokens);
  /// `prompt_hashes`: of the request's whole prompt blocks, as far as they are known. A hash tells the whole beginning
  /// of the prompt up to its block, not the block alone.
  void open(ReqId id, std::span<const std::uint64_t> prompt_hashes);
  /// See KvLedger::prefix_hit.
  [[nodiscard]] PrefixHit hit(ReqId id, Tok limit) const;
  /// Takes blocks from the head of the queue. Their content is lost.
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
  struct Run {
    std::vector<std::uint64_t> hashes;  // of a hashed run, at least `count`
    Blk count = 0;                      // blocks
    std::int32_t request = -1;          // of an own run
    std::int32_t holders = 0;           // of a hashed run, which is in the queue when nothing holds it
    std::int32_t rest = -1;             // of a hashed run: what was split off its end, while a request holds both
    std::int32_t previous = -1, next = -1;
    Kind kind = Kind::anonymous;
  };
  /// Neighbouring published blocks of a request: of a run and, where they are more, of what was split off it; or, with
  /// run < 0, blocks whose content another request had published first.
  struct Piece {
    std::int32_t run = -1;
    Blk count = 0;
  };
  struct Holder {
    std::vector<std::uint64_t> hashes;
    std::vector<Piece> pieces;
    std::size_t published = 0;  // blocks of all pieces
    std::int32_t own = -1;      // the own run while preempted; it begins at position own_begin
    std::size_t own_begin = 0;
  };
  struct Match {
    std::int32_t run = -1;   // none: -1
    std::size_t blocks = 0;  // of its beginning
  };

  [[nodiscard]] Match match(const Holder& holder, std::size_t from, std::size_t end) const;
  [[nodiscard]] Match behind(const Holder& holder) const;
  template <class Visit>
  void for_parts(const Piece& piece, Visit visit) const;
  void publish_fresh(Holder& holder, std::size_t end);
  static void add_foreign(Holder& holder, std::size_t blocks);
  void forget_own(Holder& holder);
  std::int32_t new_run();
  std::int32_t push_idle(Kind kind, Blk count, std::int32_t request);
  void split(std::int32_t run, std::size_t blocks);
  void link(std::int32_t run, std::int32_t before);
  void unlink(std::int32_t run);
  void drop(std::int32_t run);
  void evict_head();

  Tok block_tokens_;
  std::vector<Run> runs_;
  std::vector<std::int32_t> free_runs_;
  ByRequest<Holder> holders_;        // of those with known hashes, or with an own run
  std::vector<std::int32_t> parts_;  // scratch
  BlockIndex by_hash_;               // hashed runs by their first block
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

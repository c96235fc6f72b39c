// SPDX-License-Identifier: Apache-2.0
// KV content that outlives its request and can be reused: by later requests with the same prompt prefix, or by a
// preempted request itself.
//
// The cache keeps runs of blocks, not single blocks. A run of known content is a part of a sequence: neighbouring
// blocks with the same holders. It is found by the hash of its first block and compared from there on, so a prompt
// costs one look-up per run. A run is split where a request shares only its beginning, like an edge of a radix tree.
//
// Requests that compute the same content at the same time keep one copy each. The copies of a run are equally long;
// look-ups find the copy that was published first. A block's hash covers all blocks before it, so it occurs only in
// runs of one content: as their first block, or directly behind its predecessor.
//
// Idle blocks wait in a queue, least recently freed first. Blocks are reused from its head and lose their content then
// (vLLM's free-block queue; a request's blocks are freed from last to first). Blocks that no request can look up are
// runs without hashes. From vLLM 0.24 on, blocks without complete content go to the head of the queue.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/block_index.h"
#include "sched/by_request.h"
#include "sched/types.h"

namespace plimsoll::sched {

struct PrefixHit;

/// The content of a sequence, as far as it is known, in blocks of the sender's size.
struct KnownContent {
  std::span<const std::uint64_t> hashes;
  Tok block_tokens = 0;  // tokens covered by one hash
  Tok tokens = 0;        // tokens that the hashes describe
  bool chain = false;    // each hash stands for all content up to the end of its block; false: for its block alone
};
/// Computes the hashes of the whole KV blocks of a content. Each result depends on all blocks before it: equal hashes
/// mean equal beginnings. Empty if nothing is known.
[[nodiscard]] std::vector<std::uint64_t> block_hashes(const KnownContent& content, Tok block_tokens);

class PrefixCache {
 public:
  /// `partial_first`: blocks without complete content are reused first.
  PrefixCache(Blk blocks, Tok block_tokens, bool partial_first = false);
  /// Registers a request. `prompt_hashes` are those of its whole prompt blocks, as far as they are known. A hash stands
  /// for the whole prompt up to its block, not for the block alone.
  void open(ReqId id, std::span<const std::uint64_t> prompt_hashes);
  /// See KvLedger::prefix_hit.
  [[nodiscard]] PrefixHit hit(ReqId id, Tok limit) const;
  /// Returns how many of the blocks, from the first on, are cached.
  [[nodiscard]] std::size_t known(std::span<const std::uint64_t> blocks) const;
  /// Takes blocks from the head of the queue; their content is lost.
  void take(Blk blocks);
  /// Shares the cached blocks of the first `tokens` tokens. Returns how many of them were idle until now.
  Blk attach(ReqId id, Tok tokens);
  /// Makes whole blocks with known hashes findable, up to `computed` tokens.
  void publish(ReqId id, Tok computed);
  /// Returns the request's `held` blocks; what was published stays findable. Its first `computed` tokens are complete.
  /// If `returns` is true, the request itself may find its blocks again. Returns how many blocks became idle.
  Blk release(ReqId id, Blk held, Tok computed, bool returns);
  /// Forgets the request and its hashes. Call after release().
  void close(ReqId id);

 private:
  friend class KvPreview;
  [[nodiscard]] static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
  enum class Kind : std::uint8_t { anonymous, hashed };
  struct Run {
    std::vector<std::uint64_t> hashes;  // hashed run: one per block
    Blk count = 0;                      // blocks
    std::int32_t holders = 0;           // hashed run; it is in the queue while this is 0
    std::int32_t rest = -1;             // hashed run: the part split off its end, while a request holds both
    std::int32_t twin = -1;             // hashed run: the copy that was published next
    std::int32_t previous = -1, next = -1;
    Kind kind = Kind::anonymous;
  };
  /// Neighbouring published blocks of a request: those of a run and, if there are more, of the parts split off it.
  struct Piece {
    std::int32_t run = -1;
    Blk count = 0;
  };
  struct Holder {
    std::vector<std::uint64_t> hashes;
    std::vector<Piece> pieces;
    std::size_t published = 0;   // blocks in all pieces
    std::uint64_t identity = 0;  // seed of the hashes of its own blocks; 0: none yet
  };
  struct Match {
    std::int32_t run = -1;   // -1: no match
    std::size_t blocks = 0;  // matching blocks from the beginning of the run
  };

  [[nodiscard]] Match match(std::span<const std::uint64_t> hashes, std::size_t from, std::size_t end) const;
  [[nodiscard]] Match match(const Holder& holder, std::size_t from, std::size_t end) const {
    return match(holder.hashes, from, end);
  }
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
  ByRequest<Holder> holders_;        // requests with known hashes
  std::vector<std::int32_t> parts_;  // scratch
  BlockIndex by_hash_;               // the first copy of each hashed run, by the hash of its first block
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

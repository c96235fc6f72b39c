// SPDX-License-Identifier: Apache-2.0
// The KV block accounts of one replica: the single authority in both backends.
//
// A request holds blocks in one of three ways: on demand (vLLM: a block when a token needs one), reserved for life
// (TGI, Orca, contiguous slots), or shared through the prefix cache. Members of the decode group (request_table.h) that
// hold blocks on demand grow implicitly: the ledger keeps only a histogram of their positions inside a block, so a leap
// over many steps costs O(block size) and not O(batch).
//
// Policies see the ledger as const; the Replica applies the operations that a Decision asks for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sched/by_request.h"
#include "sched/types.h"

namespace plimsoll::sched {

class PrefixCache;

/// The size and the rules of a replica's KV pool.
struct KvConfig {
  Blk blocks = 0;  // usable blocks
  Tok block_tokens = 16;
  bool prefix_caching = false;
  bool partial_first = false;  // with caching: freed blocks without complete content are reused first
  bool in_slots = false;       // with caching: prompts stay in the slots of a policy, not in the pool
};

/// The part of a request's tokens that the prefix cache holds.
struct PrefixHit {
  Tok tokens = 0;       // a multiple of the block size
  Blk idle_blocks = 0;  // blocks of the hit that no request holds: they count as free until attached
};

/// Counts the KV blocks of one replica. Aborts if a policy takes blocks that are not free.
class KvLedger {
 public:
  explicit KvLedger(const KvConfig& config);
  ~KvLedger();
  KvLedger(KvLedger&&) noexcept;

  // ---- read by policies ------------------------------------------------------------------------------------
  [[nodiscard]] Blk total() const { return config_.blocks; }
  /// Blocks that can be taken now, including cached ones that no request holds.
  [[nodiscard]] Blk free() const { return free_; }
  [[nodiscard]] Tok block_tokens() const { return config_.block_tokens; }
  [[nodiscard]] bool prefix_caching() const { return config_.prefix_caching; }
  /// Returns how many blocks `tokens` tokens occupy.
  [[nodiscard]] Blk blocks_for(std::int64_t tokens) const {
    return (tokens + config_.block_tokens - 1) / config_.block_tokens;
  }
  /// Returns how many blocks the request holds now.
  [[nodiscard]] Blk held(ReqId id) const {
    const Account* a = accounts_.find(id);
    if (a == nullptr) return 0;
    return a->phase < 0 ? a->held : blocks_for(a->covered + (clock_ - a->joined));
  }
  /// Returns how many more blocks the request needs to cover `tokens` tokens.
  [[nodiscard]] Blk need(ReqId id, std::int64_t tokens) const {
    const Blk missing = blocks_for(tokens) - held(id);
    return missing > 0 ? missing : 0;
  }
  /// Returns how many blocks the decode group takes if all its members decode for `steps` steps.
  [[nodiscard]] Blk group_growth(std::int64_t steps) const;
  /// Returns the most steps of the whole group whose growth fits `available` blocks; kForever if it never grows.
  [[nodiscard]] std::int64_t group_steps(Blk available) const;
  /// Looks up the request's first tokens (at most `limit`, in whole blocks) in the prefix cache; empty without caching.
  [[nodiscard]] PrefixHit prefix_hit(ReqId id, Tok limit) const;
  /// Returns how many tokens of a prompt with these blocks, at most `limit`, are in the prefix cache.
  [[nodiscard]] Tok cached_tokens(std::span<const std::uint64_t> blocks, Tok limit) const;
  /// Returns the hashes of the request's whole prompt blocks, as far as they are known. Empty unless prompts stay in
  /// slots. Each hash depends on all blocks before it, so two prompts are equal as far as their hashes are.
  [[nodiscard]] std::span<const std::uint64_t> prompt_hashes(ReqId id) const {
    const std::vector<std::uint64_t>* hashes = prompts_.find(id);
    return hashes == nullptr ? std::span<const std::uint64_t>() : *hashes;
  }
  /// Returns null without caching. For KvPreview.
  [[nodiscard]] const PrefixCache* cache() const { return cache_.get(); }
  /// Returns the blocks swapped out to host memory.
  [[nodiscard]] Blk swapped() const { return swapped_; }
  [[nodiscard]] Blk swapped(ReqId id) const {
    const Account* a = accounts_.find(id);
    return a == nullptr ? 0 : a->swapped;
  }

  // ---- changed by the Replica only -------------------------------------------------------------------------
  /// Registers a request with the hashes of its whole prompt blocks (in this ledger's block size).
  void open(ReqId id, std::span<const std::uint64_t> prompt_hashes);
  /// Grows the request on demand to cover `tokens`; aborts if too few blocks are free.
  void grow(ReqId id, std::int64_t tokens);
  /// Reserves blocks for `tokens` tokens for life: the request never grows beyond them.
  void reserve(ReqId id, std::int64_t tokens);
  /// Attaches the cached blocks of the request's first `tokens` tokens.
  void attach_prefix(ReqId id, Tok tokens);
  /// Reports that the first `computed` tokens have content: other requests may now find whole blocks of the prompt.
  void publish(ReqId id, Tok computed);
  /// Takes blocks from the prefix cache for decodes that are decided but have not run yet. They count as free until the
  /// decodes run.
  void take_early(Blk blocks);
  /// Returns all blocks of the request, including `early` blocks from take_early(). Its first `computed` tokens have
  /// content. If `returns` is true, the request itself may find its blocks again.
  void release(ReqId id, Tok computed, bool returns = true, Blk early = 0);
  /// Moves the request's blocks to host memory and takes it out of the decode group. The blocks become free.
  void swap_out(ReqId id);
  /// Brings the request's blocks back, as many as were swapped out; aborts if too few are free.
  void swap_in(ReqId id);
  /// Forgets the request; call after release() when it has ended.
  void close(ReqId id);

  /// Makes the request grow with the decode group, unless it has reserved for life. It must hold exactly the blocks of
  /// its `computed` tokens.
  void join_group(ReqId id, Tok computed);
  /// Ends the implicit growth; the request keeps the blocks that it holds now.
  void leave_group(ReqId id);
  /// Advances all members by `steps` tokens; aborts if too few blocks are free (see group_steps()).
  void advance_group(std::int64_t steps);
  /// Advances one member by one token while the others stay as they are.
  void advance_member(ReqId id);

  /// Returns the sum over j < steps of group_growth(j + 1) * (a + b x + c x^2), where x = j - (steps - 1) / 2: the
  /// integral of blocks over time of a leap whose step times follow that parabola. O(steps) additions.
  [[nodiscard]] double weighted_growth(std::int64_t steps, double a, double b, double c) const;
  /// Returns the blocks that are not free. A shared block counts once.
  [[nodiscard]] Blk in_use() const { return config_.blocks - free_; }
  /// Returns how many more blocks the requests hold in total than are in use: a shared block counts once per holder.
  [[nodiscard]] Blk shared() const { return held_ - in_use(); }
  /// Returns whether the request's blocks are reserved for life.
  [[nodiscard]] bool reserved(ReqId id) const {
    const Account* a = accounts_.find(id);
    return a != nullptr && a->reserved;
  }

 private:
  struct Account {
    Blk held = 0;  // as of `clock`, for members that grow
    Blk swapped = 0;
    std::int64_t joined = 0;  // group clock when `covered` was recorded
    Tok covered = 0;          // tokens with KV at that time
    std::int32_t phase = -1;  // class in the histogram; -1: does not grow with the group
    bool reserved = false;
  };
  [[nodiscard]] std::int32_t phase_at(Tok covered) const;
  /// `early` of the blocks have been taken by take_early(), which only decodes may use.
  void take(Blk blocks, Blk early = 0);

  KvConfig config_;
  Blk free_ = 0, swapped_ = 0;
  Blk held_ = 0;                 // held by all requests together; shared blocks count once per holder
  Blk early_ = 0;                // taken from the cache before the steps that need them have run
  ByRequest<Account> accounts_;  // accounts of requests that have held blocks
  // Growing members per class (covered - clock) mod block size. At clock k the class -k mod block size needs a block.
  std::vector<std::int32_t> phases_;
  std::int64_t clock_ = 0, growing_ = 0;
  std::unique_ptr<PrefixCache> cache_;
  ByRequest<std::vector<std::uint64_t>> prompts_;  // hashes of live requests, where prompts stay in slots
};

}  // namespace plimsoll::sched

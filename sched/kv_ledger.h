// SPDX-License-Identifier: Apache-2.0
// The account of KV blocks of one replica: the single authority in both backends.
//
// Three ways to hold blocks: on demand (vLLM: a block when a token needs one), reserved for life (TGI, Orca, contiguous
// slots), and shared through the prefix cache. Members of the decode group (request_table.h) that hold on demand grow
// implicitly: only a histogram of their positions inside a block is kept, so that a leap over many steps costs
// O(block size) and not O(batch).
//
// Policies see it as const; the Replica applies the operations that a Decision asks for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sched/by_request.h"
#include "sched/types.h"

namespace plimsoll::sched {

class PrefixCache;

struct KvConfig {
  Blk blocks = 0;  // usable blocks
  Tok block_tokens = 16;
  bool prefix_caching = false;
  bool partial_first = false;  // with caching: freed blocks whose content is not complete are reused first
};

/// What the prefix cache holds of a request's tokens.
struct PrefixHit {
  Tok tokens = 0;       // whole blocks
  Blk idle_blocks = 0;  // how many of these blocks no request holds: they count as free until attached
};

/// Counts the KV blocks of one replica. Fails a check where a policy takes what is not free.
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
  [[nodiscard]] Blk blocks_for(std::int64_t tokens) const {
    return (tokens + config_.block_tokens - 1) / config_.block_tokens;
  }
  [[nodiscard]] Blk held(ReqId id) const;
  /// Blocks missing for the request to cover `tokens` tokens.
  [[nodiscard]] Blk need(ReqId id, std::int64_t tokens) const {
    const Blk missing = blocks_for(tokens) - held(id);
    return missing > 0 ? missing : 0;
  }
  /// Blocks that the decode group takes over the next `steps` steps of all its members.
  [[nodiscard]] Blk group_growth(std::int64_t steps) const;
  /// The most steps of the whole group whose growth fits `available` blocks; kForever if it never grows.
  [[nodiscard]] std::int64_t group_steps(Blk available) const;
  /// Tokens of the request (at most `limit`, rounded down to blocks) that the prefix cache holds; none without caching.
  [[nodiscard]] PrefixHit prefix_hit(ReqId id, Tok limit) const;
  /// Null without caching; for KvPreview.
  [[nodiscard]] const PrefixCache* cache() const { return cache_.get(); }
  /// Blocks swapped out to the host.
  [[nodiscard]] Blk swapped() const { return swapped_; }
  [[nodiscard]] Blk swapped(ReqId id) const {
    const Account* a = accounts_.find(id);
    return a == nullptr ? 0 : a->swapped;
  }

  // ---- changed by the Replica only -------------------------------------------------------------------------
  /// A request appears, with the hashes of its whole prompt blocks (block size of this ledger).
  void open(ReqId id, std::span<const std::uint64_t> prompt_hashes);
  /// Grows on demand to cover `tokens`; aborts if the blocks are not there.
  void grow(ReqId id, std::int64_t tokens);
  /// Reserves for life: the request never grows beyond this.
  void reserve(ReqId id, std::int64_t tokens);
  /// Takes the first `tokens` tokens from the prefix cache.
  void attach_prefix(ReqId id, Tok tokens);
  /// The first `computed` tokens have content: whole blocks of the prompt become hits for others.
  void publish(ReqId id, Tok computed);
  /// Takes blocks of decodes that are decided but have not run yet from the prefix cache; they count as free until
  /// then.
  void take_early(Blk blocks);
  /// Gives everything back, `early` blocks of take_early() among it. The first `computed` tokens have content; with
  /// `returns` the request itself may find them again.
  void release(ReqId id, Tok computed, bool returns = true, Blk early = 0);
  /// The blocks become free; as many are counted in host memory.
  void swap_out(ReqId id);
  /// Takes as many blocks again as were swapped out.
  void swap_in(ReqId id);
  /// The request forgets its blocks' history; call after release when it has ended.
  void close(ReqId id);

  void join_group(ReqId id, Tok computed);
  void leave_group(ReqId id);
  /// Every member takes the blocks of `steps` more tokens. They must be free: see group_steps().
  void advance_group(std::int64_t steps);
  /// One member decodes alone, as one of a list.
  void advance_member(ReqId id);

  /// Sum over j < steps of group_growth(j + 1) * (a + b x + c x^2), x = j - (steps - 1) / 2: blocks times time of a
  /// leap whose step times follow that parabola. O(steps) additions.
  [[nodiscard]] double weighted_growth(std::int64_t steps, double a, double b, double c) const;
  [[nodiscard]] Blk in_use() const { return config_.blocks - free_; }
  /// How many more blocks the requests hold together than are in use: shared ones count for each that holds them.
  [[nodiscard]] Blk shared() const { return held_ - in_use(); }
  /// Whether the request's blocks are reserved for life.
  [[nodiscard]] bool reserved(ReqId id) const {
    const Account* a = accounts_.find(id);
    return a != nullptr && a->reserved;
  }

 private:
  struct Account {
    Blk held = 0;  // as of `clock`, for members that grow
    Blk swapped = 0;
    std::int64_t joined = 0;  // group clock at which `covered` held
    Tok covered = 0;          // tokens with KV then
    std::int32_t phase = -1;  // position in the histogram; -1: not growing with the group
    bool reserved = false;
  };
  [[nodiscard]] std::int32_t phase_at(Tok covered) const;
  /// `early` of the blocks have been taken by take_early(), which only decodes may use.
  void take(Blk blocks, Blk early = 0);

  KvConfig config_;
  Blk free_ = 0, swapped_ = 0;
  Blk held_ = 0;                 // by all requests together
  Blk early_ = 0;                // taken from the cache before the steps that need them
  ByRequest<Account> accounts_;  // of those that have held blocks
  // Growing members by (covered - clock) mod block size: at clock k those with phase = -k mod B need a block.
  std::vector<std::int32_t> phases_;
  std::int64_t clock_ = 0, growing_ = 0;
  std::unique_ptr<PrefixCache> cache_;
};

}  // namespace plimsoll::sched

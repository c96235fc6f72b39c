// SPDX-License-Identifier: Apache-2.0
#include "sched/kv_ledger.h"

#include <algorithm>

#include "model/error.h"
#include "sched/prefix_cache.h"

namespace plimsoll::sched {

KvLedger::KvLedger(const KvConfig& config)
    : config_(config), free_(config.blocks), phases_(static_cast<std::size_t>(config.block_tokens), 0) {
  PLIMSOLL_CHECK(config.block_tokens > 0 && config.blocks >= 0, "a pool has blocks of at least one token");
  if (config.prefix_caching && !config.in_slots)
    cache_ = std::make_unique<PrefixCache>(config.blocks, config.block_tokens, config.partial_first);
}
KvLedger::~KvLedger() = default;
KvLedger::KvLedger(KvLedger&&) noexcept = default;

// Returns the phase class of a member that covers `covered` tokens now: all members of a class need their next block in
// the same step. All members advance together, so (covered - clock) mod block size never changes.
std::int32_t KvLedger::phase_at(Tok covered) const {
  const std::int64_t size = config_.block_tokens;
  return static_cast<std::int32_t>((((covered - clock_) % size) + size) % size);
}

// In block_size steps, every member takes exactly one block. Only the steps beyond whole multiples have to be walked.
Blk KvLedger::group_growth(std::int64_t steps) const {
  const std::int64_t size = config_.block_tokens;
  Blk blocks = (steps / size) * growing_;
  std::int64_t phase = (size - clock_ % size) % size;  // the class that needs a block in the next step
  for (std::int64_t i = 0; i < steps % size; ++i) {
    blocks += phases_[static_cast<std::size_t>(phase)];
    phase = phase == 0 ? size - 1 : phase - 1;
  }
  return blocks;
}

// The inverse of group_growth: whole cycles first, then single steps until one needs more blocks than are left.
std::int64_t KvLedger::group_steps(Blk available) const {
  if (available < 0) return 0;
  if (growing_ == 0) return kForever;
  const std::int64_t size = config_.block_tokens;
  std::int64_t steps = (available / growing_) * size;
  Blk rest = available % growing_;
  std::int64_t phase = (size - clock_ % size) % size;
  while (phases_[static_cast<std::size_t>(phase)] <= rest) {  // ends within one cycle, because rest < growing_
    rest -= phases_[static_cast<std::size_t>(phase)];
    phase = phase == 0 ? size - 1 : phase - 1;
    ++steps;
  }
  return steps;
}

// Integrates the blocks in use over a leap whose step times follow a parabola around its middle: occupancy needs
// block-seconds, not blocks.
double KvLedger::weighted_growth(std::int64_t steps, double a, double b, double c) const {
  if (growing_ == 0) return 0;
  const std::int64_t size = config_.block_tokens;
  std::int64_t phase = (size - clock_ % size) % size;
  std::int64_t blocks = 0;
  double x = -0.5 * static_cast<double>(steps - 1), sum = 0;
  for (std::int64_t j = 0; j < steps; ++j, x += 1) {
    blocks += phases_[static_cast<std::size_t>(phase)];
    sum += static_cast<double>(blocks) * (a + x * (b + c * x));
    phase = phase == 0 ? size - 1 : phase - 1;
  }
  return sum;
}

PrefixHit KvLedger::prefix_hit(ReqId id, Tok limit) const { return cache_ ? cache_->hit(id, limit) : PrefixHit{}; }

void KvLedger::open(ReqId id, std::span<const std::uint64_t> prompt_hashes) {
  if (cache_)
    cache_->open(id, prompt_hashes);
  else if (!prompt_hashes.empty())
    prompts_.make(id).assign(prompt_hashes.begin(), prompt_hashes.end());
}

// Blocks that take_early() already took from the cache are not taken from it a second time.
void KvLedger::take(Blk blocks, Blk early) {
  PLIMSOLL_CHECK(blocks <= free_, "the policy asked for more KV blocks than are free");
  free_ -= blocks;
  held_ += blocks;
  early_ -= early;
  if (cache_) cache_->take(blocks - early);
}

void KvLedger::take_early(Blk blocks) {
  if (!cache_) return;
  early_ += blocks;
  cache_->take(blocks);
}

Tok KvLedger::cached_tokens(std::span<const std::uint64_t> blocks, Tok limit) const {
  if (!cache_) return 0;
  const auto most = static_cast<std::size_t>(std::max<Tok>(limit, 0) / config_.block_tokens);
  return static_cast<Tok>(cache_->known(blocks.first(std::min(most, blocks.size())))) * config_.block_tokens;
}

void KvLedger::grow(ReqId id, std::int64_t tokens) {
  const Blk missing = need(id, tokens);
  if (missing == 0) return;
  Account& a = accounts_.make(id);
  PLIMSOLL_CHECK(a.phase < 0, "the ledger grows a decode group as a whole, not its single members");
  take(missing);
  a.held += missing;
}

void KvLedger::reserve(ReqId id, std::int64_t tokens) {
  grow(id, tokens);
  accounts_.make(id).reserved = true;
}

void KvLedger::attach_prefix(ReqId id, Tok tokens) {
  Account& a = accounts_.make(id);
  PLIMSOLL_CHECK(cache_ != nullptr && a.held == 0,
                 "a prefix is attached before any other block, and only with caching on");
  free_ -= cache_->attach(id, tokens);
  a.held = blocks_for(tokens);
  held_ += a.held;
}

void KvLedger::publish(ReqId id, Tok computed) {
  if (cache_) cache_->publish(id, computed);
}

// The group keeps only counters of phases, so a member first turns its own counters back into a number of blocks.
void KvLedger::release(ReqId id, Tok computed, bool returns, Blk early) {
  Account& a = accounts_.make(id);
  leave_group(id);
  if (cache_) {
    // Early blocks have counted as free all along, so they do not become free again.
    early_ -= early;
    free_ += cache_->release(id, a.held + early, computed, returns) - early;
  } else {
    free_ += a.held;
  }
  held_ -= a.held;
  a.held = 0;
  a.reserved = false;
  PLIMSOLL_CHECK(free_ <= config_.blocks, "more KV blocks came back than were taken");
}

void KvLedger::swap_out(ReqId id) {
  Account& a = accounts_.make(id);
  leave_group(id);
  a.swapped = a.held;
  swapped_ += a.swapped;
  free_ += cache_ ? cache_->release(id, a.held, 0, false) : a.held;
  held_ -= a.held;
  a.held = 0;
}

void KvLedger::swap_in(ReqId id) {
  Account& a = accounts_.make(id);
  take(a.swapped);
  a.held = a.swapped;
  swapped_ -= a.swapped;
  a.swapped = 0;
}

void KvLedger::close(ReqId id) {
  if (Account* a = accounts_.find(id)) {
    swapped_ -= a->swapped;
    *a = {};
    accounts_.erase(id);
  }
  if (cache_) cache_->close(id);
  prompts_.erase(id);
}

// Requests that reserved for life never need another block, so they take no part in the phases.
void KvLedger::join_group(ReqId id, Tok computed) {
  Account& a = accounts_.make(id);
  if (a.reserved) return;
  a.covered = computed;
  a.joined = clock_;
  a.phase = phase_at(computed);
  PLIMSOLL_CHECK(a.held == blocks_for(computed), "a decode-ready request holds the blocks of what is computed");
  ++phases_[static_cast<std::size_t>(a.phase)];
  ++growing_;
}

void KvLedger::leave_group(ReqId id) {
  const Blk now = held(id);
  Account& a = accounts_.make(id);
  if (a.phase < 0) return;
  a.held = now;
  --phases_[static_cast<std::size_t>(a.phase)];
  --growing_;
  a.phase = -1;
}

void KvLedger::advance_group(std::int64_t steps) {
  const Blk growth = group_growth(steps);
  PLIMSOLL_CHECK(growth <= free_, "the decode group outgrew the free KV blocks");
  take(growth, std::min(growth, early_));
  clock_ += steps;
}

// A member that advances alone changes its class; its counters restart at the present clock.
void KvLedger::advance_member(ReqId id) {
  Account& a = accounts_.make(id);
  if (a.phase < 0) return;  // reserved for life
  const std::int64_t covered = a.covered + (clock_ - a.joined);
  const Blk missing = blocks_for(covered + 1) - blocks_for(covered);
  if (missing > 0) take(missing, std::min(missing, early_));
  --phases_[static_cast<std::size_t>(a.phase)];
  a.covered = static_cast<Tok>(covered + 1);
  a.joined = clock_;
  a.phase = phase_at(a.covered);
  ++phases_[static_cast<std::size_t>(a.phase)];
}

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
#include "sched/kv_preview.h"

#include <algorithm>

#include "model/error.h"
#include "sched/prefix_cache.h"

namespace plimsoll::sched {

KvPreview::Changed KvPreview::changed(std::int32_t run) const {
  const auto found = changed_.find(run);
  return found == changed_.end() ? Changed{} : found->second;
}

// Returns how many blocks of the part no request holds.
Blk KvPreview::idle(const Part& part) const {
  const Changed change = changed(part.run);
  if (kv_.cache()->runs_[PrefixCache::at(part.run)].holders + change.holders > 0) return 0;
  return std::max<Blk>(0, part.end - std::max(part.begin, change.joined));
}

// Only counts the blocks and does not walk the queue yet, because most decisions never look up a prefix.
void KvPreview::take(Blk blocks) {
  PLIMSOLL_CHECK(blocks <= free_, "no more KV blocks are taken than are free");
  free_ -= blocks;
  if (kv_.prefix_caching()) unplayed_ += blocks;
}

// Walks the queue as PrefixCache::take() will. Blocks released meanwhile are not found again by this decision.
void KvPreview::play() {
  const PrefixCache& cache = *kv_.cache();
  if (!walking_) run_ = cache.head_;
  walking_ = true;
  while (unplayed_ > 0 && run_ >= 0) {
    const PrefixCache::Run& r = cache.runs_[PrefixCache::at(run_)];
    const bool hashed = r.kind == PrefixCache::Kind::hashed;
    // Blocks that this decision attaches are no longer idle.
    const Blk here = r.count - passed_ - (hashed ? changed(run_).joined : 0);
    const Blk taken = std::min(unplayed_, here);
    unplayed_ -= taken;
    passed_ += taken;
    if (hashed && taken > 0) changed_[run_].lost = passed_;
    if (taken < here) return;
    run_ = r.next;
    passed_ = 0;
  }
  unplayed_ = 0;
}

// Runs only before a look-up: in most steps with prompts, no request waits behind them.
void KvPreview::find_published() {
  for (const auto& [id, end] : published_) {
    const PrefixCache::Holder* holder = kv_.cache()->holders_.find(id);
    if (holder == nullptr) continue;
    const std::size_t blocks = std::min(static_cast<std::size_t>(end / kv_.block_tokens()), holder->hashes.size());
    if (holder->published < blocks) found_.push_back({holder->published, std::span(holder->hashes).first(blocks)});
  }
  published_.clear();
}

// A hash stands for all blocks before it, so it can only be at the same place of another prompt.
bool KvPreview::is_published(std::size_t block, std::uint64_t hash) const {
  return std::any_of(found_.begin(), found_.end(), [&](const Published& p) {
    return p.from <= block && block < p.hashes.size() && p.hashes[block] == hash;
  });
}

// Visits the parts of runs that hold the request's first blocks, at most `most` of them. Returns how many blocks were
// found. Blocks published in this step count too; they belong to no part, since requests of this step hold them.
template <class Visit>
std::size_t KvPreview::for_hit(ReqId id, std::size_t most, Visit visit) {
  play();
  find_published();
  const PrefixCache& cache = *kv_.cache();
  const PrefixCache::Holder* holder = cache.holders_.find(id);
  if (holder == nullptr) return 0;
  const std::size_t end = std::min(most, holder->hashes.size());
  std::size_t blocks = 0;
  while (blocks < end) {
    const PrefixCache::Match match = cache.match(*holder, blocks, end);
    Blk there = 0;  // matched blocks that some copy still has
    for (std::int32_t run = match.run; run >= 0; run = cache.runs_[PrefixCache::at(run)].twin) {
      const Blk left =
          std::min(static_cast<Blk>(match.blocks), cache.runs_[PrefixCache::at(run)].count - changed(run).lost);
      if (left <= there) continue;
      visit(Part{run, there, left});
      there = left;
    }
    blocks += static_cast<std::size_t>(there);
    if (there > 0) continue;
    if (!is_published(blocks, holder->hashes[blocks])) break;
    ++blocks;
  }
  return blocks;
}

PrefixHit KvPreview::prefix_hit(ReqId id, Tok limit) {
  if (!kv_.prefix_caching()) return {};
  PrefixHit hit;
  const auto most = static_cast<std::size_t>(std::max<Tok>(limit, 0) / kv_.block_tokens());
  const std::size_t blocks = for_hit(id, most, [&](const Part& part) { hit.idle_blocks += idle(part); });
  hit.tokens = static_cast<Tok>(blocks) * kv_.block_tokens();
  return hit;
}

void KvPreview::attach_prefix(ReqId id, Tok tokens) {
  const auto blocks = static_cast<std::size_t>(tokens / kv_.block_tokens());
  const std::size_t there = for_hit(id, blocks, [this](const Part& part) {
    free_ -= idle(part);
    Changed& change = changed_[part.run];
    change.joined = std::max(change.joined, part.end);
  });
  PLIMSOLL_CHECK(there == blocks, "the attached prefix is as long as the lookup said");
}

void KvPreview::release(ReqId id, Blk taken) {
  free_ += kv_.held(id) + taken;
  if (!kv_.prefix_caching()) return;
  const PrefixCache& cache = *kv_.cache();
  const PrefixCache::Holder* holder = cache.holders_.find(id);
  if (holder == nullptr) return;
  // Published blocks may be shared: only those that become idle count as free.
  free_ -= static_cast<Blk>(holder->published);
  for (const PrefixCache::Piece& piece : holder->pieces) {
    cache.for_parts(piece, [&](std::int32_t run) {
      --changed_[run].holders;
      free_ += idle({run, 0, cache.runs_[PrefixCache::at(run)].count});
    });
  }
}

}  // namespace plimsoll::sched

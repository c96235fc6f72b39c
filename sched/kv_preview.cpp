// SPDX-License-Identifier: Apache-2.0
#include "sched/kv_preview.h"

#include <algorithm>

#include "model/error.h"
#include "sched/prefix_cache.h"

namespace plimsoll::sched {

namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

KvPreview::Changed KvPreview::changed(std::int32_t run) const {
  const auto found = changed_.find(run);
  return found == changed_.end() ? Changed{} : found->second;
}

// How many of the first `blocks` blocks of a hashed run nothing holds.
Blk KvPreview::idle(std::int32_t run, Blk blocks) const {
  const Changed change = changed(run);
  if (kv_.cache()->runs_[at(run)].holders + change.holders > 0) return 0;
  return std::max<Blk>(0, blocks - change.joined);
}

// The queue is not walked yet: most decisions take blocks and never ask for a hit.
void KvPreview::take(Blk blocks) {
  PLIMSOLL_CHECK(blocks <= free_, "no more KV blocks are taken than are free");
  free_ -= blocks;
  if (kv_.prefix_caching()) unplayed_ += blocks;
}

// Walks the queue as PrefixCache::take will. Blocks released meanwhile are behind its end: no request finds them.
void KvPreview::play() {
  const PrefixCache& cache = *kv_.cache();
  if (!walking_) run_ = cache.head_;
  walking_ = true;
  while (unplayed_ > 0 && run_ >= 0) {
    const PrefixCache::Run& r = cache.runs_[at(run_)];
    const bool hashed = r.kind == PrefixCache::Kind::hashed;
    const auto own = attached_.find(run_);
    const Blk attached = hashed ? changed(run_).joined : own == attached_.end() ? 0 : own->second;
    const Blk here = r.count - passed_ - attached;
    const Blk taken = std::min(unplayed_, here);
    unplayed_ -= taken;
    passed_ += taken;
    if (hashed && taken > 0) changed_[run_].lost = passed_;
    if (taken < here) return;
    if (r.kind == PrefixCache::Kind::own) lost_own_.insert(run_);
    run_ = r.next;
    passed_ = 0;
  }
  unplayed_ = 0;
}

PrefixHit KvPreview::prefix_hit(ReqId id, Tok limit) {
  if (!kv_.prefix_caching()) return {};
  play();
  PrefixHit hit;
  const PrefixCache& cache = *kv_.cache();
  const PrefixCache::Holder* holder = cache.holders_.find(id);
  if (holder == nullptr) return hit;
  const auto most = static_cast<std::size_t>(std::max<Tok>(limit, 0) / kv_.block_tokens());
  const std::size_t end = std::min(most, holder->hashes.size());
  std::size_t blocks = 0;
  while (blocks < end) {
    const PrefixCache::Match found = cache.match(*holder, blocks, end);
    if (found.run < 0) break;
    const Blk left = cache.runs_[at(found.run)].count - changed(found.run).lost;
    const auto there = std::min(found.blocks, static_cast<std::size_t>(left));
    hit.idle_blocks += idle(found.run, static_cast<Blk>(there));
    blocks += there;
    if (there < found.blocks) break;
  }
  if (holder->own >= 0 && blocks == holder->own_begin && !lost_own_.contains(holder->own)) {
    const Blk passed = holder->own == run_ ? passed_ : 0;
    const auto own = std::min(static_cast<std::size_t>(cache.runs_[at(holder->own)].count - passed), most - blocks);
    blocks += own;
    hit.idle_blocks += static_cast<Blk>(own);
  }
  hit.tokens = static_cast<Tok>(blocks) * kv_.block_tokens();
  return hit;
}

void KvPreview::attach_prefix(ReqId id, Tok tokens) {
  play();
  const PrefixCache& cache = *kv_.cache();
  const PrefixCache::Holder* holder = cache.holders_.find(id);
  PLIMSOLL_CHECK(holder != nullptr, "a prefix is attached as it was hit");
  const auto blocks = static_cast<std::size_t>(tokens / kv_.block_tokens());
  const std::size_t shared =
      std::min(blocks, holder->own >= 0 ? std::min(holder->own_begin, holder->hashes.size()) : holder->hashes.size());
  for (std::size_t i = 0; i < shared;) {
    const PrefixCache::Match found = cache.match(*holder, i, shared);
    PLIMSOLL_CHECK(found.run >= 0, "a prefix is attached as it was hit");
    const auto count = static_cast<Blk>(found.blocks);
    free_ -= idle(found.run, count);
    Changed& change = changed_[found.run];
    change.joined = std::max(change.joined, count);
    i += found.blocks;
  }
  if (shared == blocks) return;
  attached_[holder->own] = static_cast<Blk>(blocks - shared);
  free_ -= static_cast<Blk>(blocks - shared);
}

void KvPreview::release(ReqId id) {
  free_ += kv_.held(id);
  if (!kv_.prefix_caching()) return;
  const PrefixCache& cache = *kv_.cache();
  const PrefixCache::Holder* holder = cache.holders_.find(id);
  if (holder == nullptr) return;
  free_ -= static_cast<Blk>(holder->published);
  for (const PrefixCache::Piece& piece : holder->pieces) {
    if (piece.run < 0) {
      free_ += piece.count;
      continue;
    }
    cache.for_parts(piece, [&](std::int32_t run) {
      --changed_[run].holders;
      free_ += idle(run, cache.runs_[at(run)].count);
    });
  }
}

}  // namespace plimsoll::sched

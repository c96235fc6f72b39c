// SPDX-License-Identifier: Apache-2.0
#include "sched/kv_preview.h"

#include <algorithm>

#include "model/error.h"
#include "sched/prefix_cache.h"

namespace plimsoll::sched {

namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

std::int32_t KvPreview::holders(std::int32_t hashed) const {
  const auto more = joined_.find(hashed);
  return kv_.cache()->elements_[at(hashed)].holders + (more == joined_.end() ? 0 : more->second);
}

void KvPreview::take(Blk blocks) {
  PLIMSOLL_CHECK(blocks <= free_, "no more KV blocks are taken than are free");
  free_ -= blocks;
  if (kv_.prefix_caching()) unplayed_ += blocks;
}

// Walks the queue as PrefixCache::take will. Blocks released meanwhile stand behind its end and are nobody's hit.
void KvPreview::play() {
  const PrefixCache& cache = *kv_.cache();
  if (!walking_) element_ = cache.head_;
  walking_ = true;
  while (unplayed_ > 0 && element_ >= 0) {
    const PrefixCache::Element& e = cache.elements_[at(element_)];
    const bool hashed = e.kind == PrefixCache::Kind::hashed;
    const auto own = attached_.find(element_);
    Blk here = e.count - passed_of_element_ - (own == attached_.end() ? 0 : own->second);
    if (hashed && holders(e.what) > 0) here = 0;  // attached meanwhile
    const Blk taken = std::min(unplayed_, here);
    unplayed_ -= taken;
    passed_of_element_ += taken;
    if (taken < here) return;
    if (hashed && here > 0) lost_.insert(e.what);
    if (e.kind == PrefixCache::Kind::own) lost_runs_.insert(element_);
    element_ = e.next;
    passed_of_element_ = 0;
  }
  unplayed_ = 0;
}

PrefixHit KvPreview::prefix_hit(ReqId id, Tok limit) {
  if (!kv_.prefix_caching()) return {};
  play();
  const PrefixCache& cache = *kv_.cache();
  const PrefixCache::Holder& holder = cache.holders_[id];
  const auto most = static_cast<std::size_t>(std::max<Tok>(limit, 0) / kv_.block_tokens());
  std::size_t blocks = 0;
  PrefixHit hit;
  std::int32_t found = -1;
  for (; blocks < std::min(most, holder.hashes.size()); ++blocks) {
    found = cache.find_behind(found, holder.hashes[blocks]);
    if (found < 0 || lost_.contains(found)) break;
    if (holders(found) == 0) ++hit.idle_blocks;
  }
  if (holder.own >= 0 && blocks == holder.own_begin && !lost_runs_.contains(holder.own)) {
    const Blk passed = holder.own == element_ ? passed_of_element_ : 0;
    const auto own = std::min(static_cast<std::size_t>(cache.elements_[at(holder.own)].count - passed), most - blocks);
    blocks += own;
    hit.idle_blocks += static_cast<Blk>(own);
  }
  hit.tokens = static_cast<Tok>(blocks) * kv_.block_tokens();
  return hit;
}

void KvPreview::attach_prefix(ReqId id, Tok tokens) {
  play();
  const PrefixCache& cache = *kv_.cache();
  const PrefixCache::Holder& holder = cache.holders_[id];
  const auto blocks = static_cast<std::size_t>(tokens / kv_.block_tokens());
  const std::size_t shared =
      std::min(blocks, holder.own >= 0 ? std::min(holder.own_begin, holder.hashes.size()) : holder.hashes.size());
  std::int32_t hashed = -1;
  for (std::size_t i = 0; i < shared; ++i) {
    hashed = cache.find_behind(hashed, holder.hashes[i]);
    PLIMSOLL_CHECK(hashed >= 0, "a prefix is attached as it was hit");
    if (holders(hashed) == 0) --free_;
    ++joined_[hashed];
  }
  if (shared == blocks) return;
  attached_[holder.own] = static_cast<Blk>(blocks - shared);
  free_ -= static_cast<Blk>(blocks - shared);
}

void KvPreview::release(ReqId id) {
  const Blk held = kv_.held(id);
  if (!kv_.prefix_caching()) {
    free_ += held;
    return;
  }
  const std::vector<std::int32_t>& published = kv_.cache()->holders_[id].published;
  free_ += held - static_cast<Blk>(published.size());
  for (const std::int32_t hashed : published) {
    if (hashed >= 0) --joined_[hashed];
    if (hashed < 0 || holders(hashed) == 0) ++free_;
  }
}

}  // namespace plimsoll::sched

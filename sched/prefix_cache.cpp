// SPDX-License-Identifier: Apache-2.0
#include "sched/prefix_cache.h"

#include <algorithm>

#include "model/error.h"
#include "sched/kv_ledger.h"

namespace plimsoll::sched {

namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

template <class T>
std::int32_t new_slot(std::vector<T>& slots, std::vector<std::int32_t>& free) {
  if (free.empty()) {
    slots.emplace_back();
    return static_cast<std::int32_t>(slots.size() - 1);
  }
  const std::int32_t slot = free.back();
  free.pop_back();
  return slot;
}
}  // namespace

// The position inside the trace's block is mixed in, so that every KV block has its own hash.
std::vector<std::uint64_t> block_hashes(std::span<const std::uint64_t> prefix_hashes, Tok hash_block_tokens, Tok input,
                                        Tok block_tokens) {
  std::vector<std::uint64_t> hashes;
  if (hash_block_tokens <= 0) return hashes;
  const auto known = static_cast<std::int64_t>(prefix_hashes.size()) * hash_block_tokens;
  const std::int64_t blocks = std::min<std::int64_t>(input, known) / block_tokens;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const auto last = static_cast<std::uint64_t>((i + 1) * block_tokens - 1);
    const std::uint64_t within = last % static_cast<std::uint64_t>(hash_block_tokens);
    const std::uint64_t hash = prefix_hashes[last / static_cast<std::uint64_t>(hash_block_tokens)];
    hashes.push_back((hash ^ (within + 1) * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL);
  }
  return hashes;
}

PrefixCache::PrefixCache(Blk blocks, Tok block_tokens) : block_tokens_(block_tokens) {
  push_idle(Kind::anonymous, blocks, -1);
}

void PrefixCache::open(ReqId id, std::span<const std::uint64_t> prompt_hashes) {
  if (id >= holders_.size()) holders_.resize(id + 1);
  holders_[id].hashes.assign(prompt_hashes.begin(), prompt_hashes.end());
}

PrefixHit PrefixCache::hit(ReqId id, Tok limit) const {
  const Holder& holder = holders_[id];
  const auto most = static_cast<std::size_t>(std::max<Tok>(limit, 0) / block_tokens_);
  std::size_t blocks = 0;
  PrefixHit hit;
  for (; blocks < std::min(most, holder.hashes.size()); ++blocks) {
    const auto found = by_hash_.find(holder.hashes[blocks]);
    if (found == by_hash_.end()) break;
    if (hashed_[at(found->second)].holders == 0) ++hit.idle_blocks;
  }
  if (holder.own >= 0 && blocks == holder.own_begin) {
    const auto own = std::min(static_cast<std::size_t>(elements_[at(holder.own)].count), most - blocks);
    blocks += own;
    hit.idle_blocks += static_cast<Blk>(own);
  }
  hit.tokens = static_cast<Tok>(blocks) * block_tokens_;
  return hit;
}

std::int32_t PrefixCache::push_idle(Kind kind, Blk count, std::int32_t what) {
  if (count == 0) return -1;
  if (kind == Kind::anonymous && tail_ >= 0 && elements_[at(tail_)].kind == Kind::anonymous) {
    elements_[at(tail_)].count += count;
    return tail_;
  }
  const std::int32_t element = new_slot(elements_, free_elements_);
  elements_[at(element)] = {kind, count, what, tail_, -1};
  (tail_ >= 0 ? elements_[at(tail_)].next : head_) = element;
  tail_ = element;
  return element;
}

void PrefixCache::unlink(std::int32_t element) {
  const Element& e = elements_[at(element)];
  (e.previous >= 0 ? elements_[at(e.previous)].next : head_) = e.next;
  (e.next >= 0 ? elements_[at(e.next)].previous : tail_) = e.previous;
  free_elements_.push_back(element);
}

// The element at the head has lost its last block.
void PrefixCache::evict_head() {
  const Element e = elements_[at(head_)];
  if (e.kind == Kind::own) holders_[at(e.what)].own = -1;
  if (e.kind == Kind::hashed) {
    by_hash_.erase(hashed_[at(e.what)].hash);
    free_hashed_.push_back(e.what);
  }
  unlink(head_);
}

void PrefixCache::take(Blk blocks) {
  while (blocks > 0) {
    PLIMSOLL_CHECK(head_ >= 0, "the queue of idle blocks ran dry");
    Element& e = elements_[at(head_)];
    const Blk taken = std::min(blocks, e.count);  // of an own run the last positions go first: they were freed first
    e.count -= taken;
    blocks -= taken;
    if (e.count == 0) evict_head();
  }
}

Blk PrefixCache::attach(ReqId id, Tok tokens) {
  Holder& holder = holders_[id];
  const auto blocks = static_cast<std::size_t>(tokens / block_tokens_);
  Blk were_idle = 0;
  holder.published.clear();
  while (holder.published.size() < std::min(blocks, holder.hashes.size())) {
    const auto found = by_hash_.find(holder.hashes[holder.published.size()]);
    if (found == by_hash_.end()) break;
    Hashed& h = hashed_[at(found->second)];
    if (h.holders++ == 0) {
      unlink(h.element);
      ++were_idle;
    }
    holder.published.push_back(found->second);
  }
  if (holder.published.size() < blocks) {
    const auto own = static_cast<Blk>(blocks - holder.published.size());
    PLIMSOLL_CHECK(holder.own >= 0 && elements_[at(holder.own)].count >= own, "a prefix is attached as it was hit");
    Element& run = elements_[at(holder.own)];
    run.count -= own;
    were_idle += own;
    run.kind = Kind::anonymous;          // what is left of it will be computed anew
    if (run.count == 0) unlink(holder.own);
    holder.own = -1;
  }
  return were_idle;
}

void PrefixCache::publish(ReqId id, Tok computed) {
  Holder& holder = holders_[id];
  const std::size_t blocks = std::min(static_cast<std::size_t>(computed / block_tokens_), holder.hashes.size());
  while (holder.published.size() < blocks) {
    const std::uint64_t hash = holder.hashes[holder.published.size()];
    std::int32_t index = -1;
    if (by_hash_.find(hash) == by_hash_.end()) {
      index = new_slot(hashed_, free_hashed_);
      hashed_[at(index)] = {hash, 1, -1};
      by_hash_.emplace(hash, index);
    }
    holder.published.push_back(index);
  }
}

Blk PrefixCache::release(ReqId id, Blk held, Tok computed) {
  Holder& holder = holders_[id];
  const auto published = static_cast<Blk>(holder.published.size());
  const Blk whole = std::clamp<Blk>(computed / block_tokens_, std::min(published, held), held);
  if (holder.own >= 0) {                 // what an earlier preemption left behind is out of date
    elements_[at(holder.own)].kind = Kind::anonymous;
    holder.own = -1;
  }
  push_idle(Kind::anonymous, held - whole, -1);
  Blk became_idle = held - std::min(published, held);
  holder.own_begin = holder.published.size();
  if (whole > published) holder.own = push_idle(Kind::own, whole - published, static_cast<std::int32_t>(id));
  for (auto i = holder.published.rbegin(); i != holder.published.rend(); ++i) {
    if (*i < 0) {
      push_idle(Kind::anonymous, 1, -1);
      ++became_idle;
      continue;
    }
    Hashed& h = hashed_[at(*i)];
    if (--h.holders > 0) continue;
    h.element = push_idle(Kind::hashed, 1, *i);
    ++became_idle;
  }
  holder.published.clear();
  return became_idle;
}

void PrefixCache::close(ReqId id) {
  Holder& holder = holders_[id];
  if (holder.own >= 0) elements_[at(holder.own)].kind = Kind::anonymous;
  holder.own = -1;
  holder.hashes.clear();
}

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
#include "sched/prefix_cache.h"

#include <algorithm>

#include "model/error.h"
#include "sched/kv_ledger.h"

namespace plimsoll::sched {

namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
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
  std::int32_t found = -1;
  for (; blocks < std::min(most, holder.hashes.size()); ++blocks) {
    found = find_behind(found, holder.hashes[blocks]);
    if (found < 0) break;
    if (elements_[at(found)].holders == 0) ++hit.idle_blocks;
  }
  if (holder.own >= 0 && blocks == holder.own_begin) {
    const auto own = std::min(static_cast<std::size_t>(elements_[at(holder.own)].count), most - blocks);
    blocks += own;
    hit.idle_blocks += static_cast<Blk>(own);
  }
  hit.tokens = static_cast<Tok>(blocks) * block_tokens_;
  return hit;
}

// The block with this hash, or -1. Prompts that begin alike go on alike, so it mostly is where it was behind `before`.
std::int32_t PrefixCache::find_behind(std::int32_t before, std::uint64_t hash) const {
  if (before < 0) return by_hash_.find(hash);
  std::int32_t& follower = elements_[at(before)].follower;
  if (follower >= 0) {
    const Element& e = elements_[at(follower)];
    if (e.kind == Kind::hashed && e.hash == hash) return follower;
  }
  const std::int32_t found = by_hash_.find(hash);
  if (found >= 0) follower = found;
  return found;
}

std::int32_t PrefixCache::new_element() {
  if (free_elements_.empty()) {
    elements_.emplace_back();
    return static_cast<std::int32_t>(elements_.size() - 1);
  }
  const std::int32_t element = free_elements_.back();
  free_elements_.pop_back();
  return element;
}

std::int32_t PrefixCache::push_idle(Kind kind, Blk count, std::int32_t what) {
  if (count == 0) return -1;
  if (kind == Kind::anonymous && tail_ >= 0 && elements_[at(tail_)].kind == Kind::anonymous) {
    elements_[at(tail_)].count += count;
    return tail_;
  }
  const std::int32_t element = new_element();
  Element& e = elements_[at(element)];
  e.kind = kind;
  e.count = count;
  e.what = what;
  link(element);
  return element;
}

void PrefixCache::link(std::int32_t element) {
  Element& e = elements_[at(element)];
  e.previous = tail_;
  e.next = -1;
  (tail_ >= 0 ? elements_[at(tail_)].next : head_) = element;
  tail_ = element;
}

void PrefixCache::unlink(std::int32_t element) {
  const Element& e = elements_[at(element)];
  (e.previous >= 0 ? elements_[at(e.previous)].next : head_) = e.next;
  (e.next >= 0 ? elements_[at(e.next)].previous : tail_) = e.previous;
}

void PrefixCache::drop(std::int32_t element) {
  unlink(element);
  elements_[at(element)].kind = Kind::anonymous;  // whatever pointed here finds nothing
  free_elements_.push_back(element);
}

// The element at the head has lost its last block.
void PrefixCache::evict_head() {
  const Element& e = elements_[at(head_)];
  if (e.kind == Kind::own) holders_[at(e.what)].own = -1;
  if (e.kind == Kind::hashed) by_hash_.erase(e.hash);
  drop(head_);
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
  std::int32_t found = -1;
  while (holder.published.size() < std::min(blocks, holder.hashes.size())) {
    found = find_behind(found, holder.hashes[holder.published.size()]);
    if (found < 0) break;
    if (elements_[at(found)].holders++ == 0) {
      unlink(found);
      ++were_idle;
    }
    holder.published.push_back(found);
  }
  if (holder.published.size() < blocks) {
    const auto own = static_cast<Blk>(blocks - holder.published.size());
    PLIMSOLL_CHECK(holder.own >= 0 && elements_[at(holder.own)].count >= own, "a prefix is attached as it was hit");
    Element& run = elements_[at(holder.own)];
    run.count -= own;
    were_idle += own;
    run.kind = Kind::anonymous;  // what is left of it will be computed anew
    if (run.count == 0) drop(holder.own);
    holder.own = -1;
  }
  return were_idle;
}

void PrefixCache::publish(ReqId id, Tok computed) {
  Holder& holder = holders_[id];
  const std::size_t blocks = std::min(static_cast<std::size_t>(computed / block_tokens_), holder.hashes.size());
  while (holder.published.size() < blocks) {
    const std::uint64_t hash = holder.hashes[holder.published.size()];
    const std::int32_t element = new_element();
    if (by_hash_.insert(hash, element) != element) {
      free_elements_.push_back(element);
      holder.published.push_back(-1);
      continue;
    }
    elements_[at(element)] = {.hash = hash,
                              .count = 1,
                              .what = element,
                              .holders = 1,
                              .follower = -1,
                              .previous = -1,
                              .next = -1,
                              .kind = Kind::hashed};
    if (!holder.published.empty() && holder.published.back() >= 0)
      elements_[at(holder.published.back())].follower = element;
    holder.published.push_back(element);
  }
}

Blk PrefixCache::release(ReqId id, Blk held, Tok computed) {
  Holder& holder = holders_[id];
  const auto published = static_cast<Blk>(holder.published.size());
  const Blk whole = std::clamp<Blk>(computed / block_tokens_, std::min(published, held), held);
  if (holder.own >= 0) {  // what an earlier preemption left behind is out of date
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
    if (--elements_[at(*i)].holders > 0) continue;
    link(*i);
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

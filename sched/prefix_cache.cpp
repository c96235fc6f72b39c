// SPDX-License-Identifier: Apache-2.0
#include "sched/prefix_cache.h"

#include <algorithm>

#include "model/error.h"

namespace plimsoll::sched {

PrefixCache::PrefixCache(Blk blocks, Tok block_tokens) : block_tokens_(block_tokens) {
  blocks_.resize(static_cast<std::size_t>(blocks));
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(blocks); ++i) push_idle(i);
}

void PrefixCache::open(ReqId id, std::uint64_t serial, std::span<const std::uint64_t> prompt_hashes) {
  if (id >= holders_.size()) holders_.resize(id + 1);
  holders_[id].serial = serial;
  holders_[id].hashes.assign(prompt_hashes.begin(), prompt_hashes.end());
  holders_[id].blocks.clear();
}

// Blocks beyond the prompt's known hashes get one that is unique to (request, position): only the request itself can
// hit them, after a preemption. splitmix64 finaliser.
std::uint64_t PrefixCache::hash_of(const Holder& holder, std::size_t block) const {
  if (block < holder.hashes.size()) return holder.hashes[block];
  std::uint64_t x = (holder.serial << 24) + block + 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

PrefixHit PrefixCache::hit(ReqId id, Tok limit) const {
  const Holder& holder = holders_[id];
  PrefixHit hit;
  const auto most = static_cast<std::size_t>(std::max<Tok>(limit, 0) / block_tokens_);
  for (std::size_t i = 0; i < most; ++i) {
    const auto found = by_hash_.find(hash_of(holder, i));
    if (found == by_hash_.end()) break;
    hit.tokens += block_tokens_;
    if (blocks_[static_cast<std::size_t>(found->second)].holders == 0) ++hit.idle_blocks;
  }
  return hit;
}

void PrefixCache::push_idle(std::int32_t block) {
  Block& b = blocks_[static_cast<std::size_t>(block)];
  b.previous = idle_tail_;
  b.next = -1;
  if (idle_tail_ >= 0) blocks_[static_cast<std::size_t>(idle_tail_)].next = block;
  else idle_head_ = block;
  idle_tail_ = block;
}

void PrefixCache::unlink_idle(std::int32_t block) {
  Block& b = blocks_[static_cast<std::size_t>(block)];
  (b.previous >= 0 ? blocks_[static_cast<std::size_t>(b.previous)].next : idle_head_) = b.next;
  (b.next >= 0 ? blocks_[static_cast<std::size_t>(b.next)].previous : idle_tail_) = b.previous;
}

void PrefixCache::take(ReqId id, Blk blocks) {
  for (Blk i = 0; i < blocks; ++i) {
    const std::int32_t block = idle_head_;
    PLIMSOLL_CHECK(block >= 0, "the queue of idle blocks ran dry");
    unlink_idle(block);
    Block& b = blocks_[static_cast<std::size_t>(block)];
    if (b.hashed) by_hash_.erase(b.hash);
    b.hashed = false;
    b.holders = 1;
    holders_[id].blocks.push_back(block);
  }
}

Blk PrefixCache::attach(ReqId id, Tok tokens) {
  Holder& holder = holders_[id];
  Blk were_idle = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(tokens / block_tokens_); ++i) {
    const std::int32_t block = by_hash_.at(hash_of(holder, i));
    Block& b = blocks_[static_cast<std::size_t>(block)];
    if (b.holders++ == 0) {
      unlink_idle(block);
      ++were_idle;
    }
    holder.blocks.push_back(block);
  }
  return were_idle;
}

void PrefixCache::name_blocks(Holder& holder, std::size_t blocks) {
  for (std::size_t i = 0; i < std::min(blocks, holder.blocks.size()); ++i) {
    Block& b = blocks_[static_cast<std::size_t>(holder.blocks[i])];
    if (b.hashed) continue;
    const std::uint64_t hash = hash_of(holder, i);
    if (!by_hash_.emplace(hash, holder.blocks[i]).second) continue;  // another request computed the same block first
    b.hash = hash;
    b.hashed = true;
  }
}

void PrefixCache::publish(ReqId id, Tok computed) {
  Holder& holder = holders_[id];
  name_blocks(holder, std::min(static_cast<std::size_t>(computed / block_tokens_), holder.hashes.size()));
}

Blk PrefixCache::release(ReqId id, Tok computed) {
  Holder& holder = holders_[id];
  name_blocks(holder, static_cast<std::size_t>(computed / block_tokens_));
  Blk became_idle = 0;
  for (auto i = holder.blocks.rbegin(); i != holder.blocks.rend(); ++i) {
    Block& b = blocks_[static_cast<std::size_t>(*i)];
    if (--b.holders == 0) {
      push_idle(*i);
      ++became_idle;
    }
  }
  holder.blocks.clear();
  return became_idle;
}

void PrefixCache::close(ReqId id) { holders_[id] = Holder{}; }

}  // namespace plimsoll::sched

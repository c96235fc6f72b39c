// SPDX-License-Identifier: Apache-2.0
#include "exec/block_pool.h"

#include <algorithm>

#include "model/error.h"

namespace plimsoll::exec {

BlockPool::BlockPool(Blk blocks, Tok block_tokens, bool prefix_caching)
    : block_tokens_(block_tokens), caching_(prefix_caching), free_(0), blocks_(static_cast<std::size_t>(blocks)) {
  PLIMSOLL_CHECK(blocks <= INT32_MAX, "a KV block has a 32-bit number");
  if (caching_) {
    for (Blk i = 0; i < blocks; ++i) push_idle(static_cast<std::int32_t>(i));
  } else {
    for (Blk i = blocks; i-- > 0;) push_idle(static_cast<std::int32_t>(i));  // the low ones first
  }
}

void BlockPool::open(ReqId id, std::span<const std::uint64_t> prompt_hashes) {
  if (id >= requests_.size()) requests_.resize(id + 1);
  requests_[id] = Held{};
  if (caching_) requests_[id].hashes.assign(prompt_hashes.begin(), prompt_hashes.end());
}

// With a cache the queue is first in, first out: content lives as long as it can. Without one, the block used last comes
// first: it may still be in the processor's caches, and memory that was never needed is never touched.
void BlockPool::push_idle(std::int32_t index) {
  Block& b = block(index);
  ++free_;
  if (caching_) {
    b.previous = tail_;
    b.next = kNone;
    (tail_ != kNone ? block(tail_).next : head_) = index;
    tail_ = index;
  } else {
    b.next = head_;
    head_ = index;
  }
}

void BlockPool::unlink(std::int32_t index) {
  Block& b = block(index);
  (b.previous != kNone ? block(b.previous).next : head_) = b.next;
  (b.next != kNone ? block(b.next).previous : tail_) = b.previous;
  b.previous = b.next = kNone;
  --free_;
}

// From the head of the queue; the block's content is lost.
std::int32_t BlockPool::take() {
  PLIMSOLL_CHECK(head_ != kNone, "the ledger counts the blocks that are taken");
  const std::int32_t index = head_;
  if (!caching_) {
    head_ = block(index).next;
    --free_;
    return index;
  }
  unlink(index);
  Block& b = block(index);
  if (b.hashed) {
    by_hash_.erase(b.hash);
    b.hashed = false;
  }
  if (b.owner != sched::kNoRequest) {
    std::vector<std::int32_t>& own = requests_[b.owner].own;
    PLIMSOLL_CHECK(!own.empty() && own.back() == index, "of a preempted request the last blocks are reused first");
    own.pop_back();
    b.owner = sched::kNoRequest;
  }
  return index;
}

void BlockPool::cover(ReqId id, std::int64_t tokens) {
  std::vector<std::int32_t>& table = requests_[id].table;
  const std::int64_t blocks = (tokens + block_tokens_ - 1) / block_tokens_;
  while (static_cast<std::int64_t>(table.size()) < blocks) table.push_back(take());
}

void BlockPool::attach_prefix(ReqId id, Tok tokens) {
  Held& held = requests_[id];
  PLIMSOLL_CHECK(caching_ && held.table.empty(), "a prefix is attached first, with caching on");
  const auto blocks = static_cast<std::size_t>(tokens / block_tokens_);
  while (held.table.size() < std::min(blocks, held.hashes.size())) {
    const auto found = by_hash_.find(held.hashes[held.table.size()]);
    if (found == by_hash_.end()) break;
    if (block(found->second).holders++ == 0) unlink(found->second);
    held.table.push_back(found->second);
  }
  held.published = held.table.size();
  if (held.table.size() == blocks) return;
  const std::size_t own = blocks - held.table.size();
  PLIMSOLL_CHECK(held.own.size() >= own && held.own_begin == held.table.size(), "a prefix is attached as it was hit");
  const std::vector<std::int32_t> kept(held.own.begin(), held.own.begin() + static_cast<std::ptrdiff_t>(own));
  disown(held);                        // what is left of it will be computed anew
  for (const std::int32_t index : kept) {
    unlink(index);
    held.table.push_back(index);
  }
}

void BlockPool::publish(ReqId id, Tok computed) {
  Held& held = requests_[id];
  const std::size_t blocks = std::min(static_cast<std::size_t>(computed / block_tokens_), held.hashes.size());
  for (; held.published < blocks; ++held.published) {
    const std::int32_t index = held.table[held.published];
    // Another block may have had the same content first; then this one stays its holder's own.
    if (!by_hash_.emplace(held.hashes[held.published], index).second) continue;
    Block& b = block(index);
    b.hashed = true;
    b.hash = held.hashes[held.published];
    b.holders = 1;
  }
}

void BlockPool::disown(Held& held) {
  for (const std::int32_t index : held.own) block(index).owner = sched::kNoRequest;
  held.own.clear();
}

// Tail first, so that the beginning of a sequence, which others are more likely to share, lives longest.
void BlockPool::release(ReqId id, Tok computed) {
  Held& held = requests_[id];
  if (!caching_) {
    for (auto i = held.table.rbegin(); i != held.table.rend(); ++i) push_idle(*i);
    held.table.clear();
    return;
  }
  disown(held);                        // what an earlier preemption left behind is out of date
  const std::size_t all = held.table.size(), published = std::min(held.published, all);
  const std::size_t whole = std::clamp(static_cast<std::size_t>(computed / block_tokens_), published, all);
  for (std::size_t i = all; i-- > published;) {
    push_idle(held.table[i]);
    if (i < whole) block(held.table[i]).owner = id;
  }
  held.own_begin = published;
  held.own.assign(held.table.begin() + static_cast<std::ptrdiff_t>(published),
                  held.table.begin() + static_cast<std::ptrdiff_t>(whole));
  for (std::size_t i = published; i-- > 0;) {
    Block& b = block(held.table[i]);
    if (b.hashed && --b.holders > 0) continue;
    push_idle(held.table[i]);
  }
  held.table.clear();
  held.published = 0;
}

void BlockPool::close(ReqId id) {
  disown(requests_[id]);
  requests_[id].hashes.clear();
}

}  // namespace plimsoll::exec

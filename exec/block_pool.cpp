// SPDX-License-Identifier: Apache-2.0
#include "exec/block_pool.h"

#include <algorithm>

#include "model/error.h"
#include "sched/router.h"

namespace plimsoll::exec {

BlockPool::BlockPool(Blk blocks, Tok block_tokens, bool prefix_caching, bool partial_first)
    : block_tokens_(block_tokens),
      caching_(prefix_caching),
      partial_first_(partial_first),
      free_(0),
      blocks_(static_cast<std::size_t>(blocks)) {
  PLIMSOLL_CHECK(blocks <= INT32_MAX, "KV block numbers fit in 32 bits");
  blank_.reserve(blocks_.size());
  for (Blk i = blocks; i-- > 0;) give_back(static_cast<std::int32_t>(i), false);  // low indices are used first
}

void BlockPool::open(ReqId id, std::span<const std::uint64_t> prompt_hashes) {
  if (id >= requests_.size()) requests_.resize(id + 1);
  requests_[id] = Held{};
  if (caching_) requests_[id].hashes.assign(prompt_hashes.begin(), prompt_hashes.end());
}

// The free queue holds a place for each block with content, and one place for a whole run of blocks without.
std::int32_t BlockPool::new_place(bool at_head) {
  std::int32_t index = static_cast<std::int32_t>(places_.size());
  if (unused_places_.empty()) {
    places_.emplace_back();
  } else {
    index = unused_places_.back();
    unused_places_.pop_back();
  }
  place(index) = {.previous = at_head ? kNone : tail_, .next = at_head ? head_ : kNone, .block = kNone, .count = 0};
  const Place& p = place(index);
  (p.previous != kNone ? place(p.previous).next : head_) = index;
  (p.next != kNone ? place(p.next).previous : tail_) = index;
  return index;
}

void BlockPool::unlink(std::int32_t index) {
  const Place& p = place(index);
  (p.previous != kNone ? place(p.previous).next : head_) = p.next;
  (p.next != kNone ? place(p.next).previous : tail_) = p.previous;
  unused_places_.push_back(index);
}

// Makes a block without content idle.
void BlockPool::give_back(std::int32_t index, bool at_head) {
  ++free_;
  blank_.push_back(index);
  std::int32_t end = at_head ? head_ : tail_;
  // Blank blocks are interchangeable, so a run of them at one end of the queue is a single place with a count.
  if (end == kNone || place(end).block != kNone) end = new_place(at_head);
  ++place(end).count;
}

// Makes a block with content idle.
void BlockPool::keep_idle(std::int32_t index) {
  ++free_;
  const std::int32_t last = new_place(false);
  block(index).place = last;
  place(last).block = index;
}

// Removes an idle block with content from the queue, because a request holds it again.
void BlockPool::take_idle(std::int32_t index) {
  --free_;
  unlink(block(index).place);
}

// Takes the block at the head of the queue and drops its content.
std::int32_t BlockPool::take() {
  PLIMSOLL_CHECK(head_ != kNone, "the ledger counts the blocks that are taken");
  --free_;
  // Blocks without content are alike, so the one that was used last is taken: it is the most likely to be cached.
  const std::int32_t index = place(head_).block;
  if (index == kNone) {
    if (--place(head_).count == 0) unlink(head_);
    const std::int32_t blank = blank_.back();
    blank_.pop_back();
    return blank;
  }
  unlink(head_);
  Block& b = block(index);
  const auto found = by_hash_.find(b.hash);
  std::erase(found->second, index);
  if (found->second.empty()) by_hash_.erase(found);
  b.hashed = false;
  return index;
}

void BlockPool::cover(ReqId id, std::int64_t tokens) {
  std::vector<std::int32_t>& table = requests_[id].table;
  const std::int64_t blocks = (tokens + block_tokens_ - 1) / block_tokens_;
  while (static_cast<std::int64_t>(table.size()) < blocks) table.push_back(take());
}

void BlockPool::attach_prefix(ReqId id, Tok tokens) {
  Held& held = requests_[id];
  PLIMSOLL_CHECK(caching_ && held.table.empty(), "a prefix is attached before other blocks, with caching on");
  const auto blocks = static_cast<std::size_t>(tokens / block_tokens_);
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto found = i < held.hashes.size() ? by_hash_.find(held.hashes[i]) : by_hash_.end();
    PLIMSOLL_CHECK(found != by_hash_.end(), "the attached prefix is still cached");
    // Of several blocks with the same content, the one that was published first is shared, as in vLLM.
    const std::int32_t first = found->second.front();
    if (block(first).holders++ == 0) take_idle(first);
    held.table.push_back(first);
  }
  held.published = blocks;
}

void BlockPool::publish(ReqId id, Tok computed) {
  Held& held = requests_[id];
  const std::size_t blocks = std::min(static_cast<std::size_t>(computed / block_tokens_), held.hashes.size());
  for (; held.published < blocks; ++held.published) {
    const std::int32_t index = held.table[held.published];
    Block& b = block(index);
    b.hashed = true;
    b.hash = held.hashes[held.published];
    b.holders = 1;
    by_hash_[b.hash].push_back(index);
  }
}

// Releases the tail first, so that the beginning of a sequence, which others are more likely to share, is reused last.
void BlockPool::release(ReqId id, Tok computed, bool returns) {
  Held& held = requests_[id];
  const std::size_t all = held.table.size();
  const std::size_t whole = std::min(static_cast<std::size_t>(computed / block_tokens_), all);
  if (caching_ && returns && whole > 0) {
    // Tokens that the request produced itself have no hash from the workload. Their blocks are hashed with the
    // request's own identity, so only this request finds them when it returns.
    if (held.identity == 0) held.identity = sched::mix(~++identities_);
    while (held.hashes.size() < whole)
      held.hashes.push_back(sched::mix(sched::mix(held.identity ^ held.hashes.size())));
    publish(id, computed);
  }
  for (std::size_t i = all; i-- > held.published;) give_back(held.table[i], partial_first_ && i >= whole);
  for (std::size_t i = std::min(held.published, all); i-- > 0;)
    if (--block(held.table[i]).holders == 0) keep_idle(held.table[i]);
  held.table.clear();
  held.published = 0;
}

void BlockPool::close(ReqId id) {
  requests_[id].hashes.clear();
  requests_[id].identity = 0;
}

}  // namespace plimsoll::exec

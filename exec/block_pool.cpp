// SPDX-License-Identifier: Apache-2.0
#include "exec/block_pool.h"

#include <algorithm>

#include "model/error.h"

namespace plimsoll::exec {

BlockPool::BlockPool(Blk blocks, Tok block_tokens, bool prefix_caching)
    : block_tokens_(block_tokens), caching_(prefix_caching), free_(0), blocks_(static_cast<std::size_t>(blocks)) {
  PLIMSOLL_CHECK(blocks <= INT32_MAX, "a KV block has a 32-bit number");
  blank_.reserve(blocks_.size());
  for (Blk i = blocks; i-- > 0;) give_back(static_cast<std::int32_t>(i));  // the low ones first
}

void BlockPool::open(ReqId id, std::span<const std::uint64_t> prompt_hashes) {
  if (id >= requests_.size()) requests_.resize(id + 1);
  requests_[id] = Held{};
  if (caching_) requests_[id].hashes.assign(prompt_hashes.begin(), prompt_hashes.end());
}

std::int32_t BlockPool::append_place() {
  std::int32_t index = static_cast<std::int32_t>(places_.size());
  if (unused_places_.empty()) {
    places_.emplace_back();
  } else {
    index = unused_places_.back();
    unused_places_.pop_back();
  }
  place(index) = {.previous = tail_, .next = kNone, .block = kNone, .count = 0};
  (tail_ != kNone ? place(tail_).next : head_) = index;
  tail_ = index;
  return index;
}

void BlockPool::unlink(std::int32_t index) {
  const Place& p = place(index);
  (p.previous != kNone ? place(p.previous).next : head_) = p.next;
  (p.next != kNone ? place(p.next).previous : tail_) = p.previous;
  unused_places_.push_back(index);
}

// A block without content becomes idle.
void BlockPool::give_back(std::int32_t index) {
  ++free_;
  blank_.push_back(index);
  if (tail_ == kNone || place(tail_).block != kNone) (void)append_place();
  ++place(tail_).count;
}

// A block with content becomes idle.
void BlockPool::keep_idle(std::int32_t index) {
  ++free_;
  block(index).place = append_place();
  place(tail_).block = index;
}

// An idle block with content is held again.
void BlockPool::take_idle(std::int32_t index) {
  --free_;
  unlink(block(index).place);
}

// The content of an idle block can no longer be found; the block keeps its place in the queue.
void BlockPool::forget(std::int32_t index) {
  Place& p = place(block(index).place);
  p.block = kNone;
  p.count = 1;
  blank_.push_back(index);
}

// Takes a block from the head of the queue, and drops its content.
std::int32_t BlockPool::take() {
  PLIMSOLL_CHECK(head_ != kNone, "the ledger counts the blocks that are taken");
  --free_;
  const std::int32_t index = place(head_).block;
  if (index == kNone) {
    if (--place(head_).count == 0) unlink(head_);
    const std::int32_t blank = blank_.back();
    blank_.pop_back();
    return blank;
  }
  unlink(head_);
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
    if (block(found->second).holders++ == 0) take_idle(found->second);
    held.table.push_back(found->second);
  }
  held.published = held.table.size();
  if (held.table.size() == blocks) return;
  const std::size_t own = blocks - held.table.size();
  PLIMSOLL_CHECK(held.own.size() >= own && held.own_begin == held.table.size(), "a prefix is attached as it was hit");
  for (std::size_t i = 0; i < own; ++i) {
    take_idle(held.own[i]);
    block(held.own[i]).owner = sched::kNoRequest;
    held.table.push_back(held.own[i]);
  }
  held.own.erase(held.own.begin(), held.own.begin() + static_cast<std::ptrdiff_t>(own));
  disown(held);  // what is left of it will be computed anew
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
  for (const std::int32_t index : held.own) {
    block(index).owner = sched::kNoRequest;
    forget(index);
  }
  held.own.clear();
}

// Tail first, so that the beginning of a sequence, which others are more likely to share, lives longest.
void BlockPool::release(ReqId id, Tok computed) {
  Held& held = requests_[id];
  if (!caching_) {
    for (auto i = held.table.rbegin(); i != held.table.rend(); ++i) give_back(*i);
    held.table.clear();
    return;
  }
  disown(held);  // content left by an earlier preemption is out of date
  const std::size_t all = held.table.size(), published = std::min(held.published, all);
  const std::size_t whole = std::clamp(static_cast<std::size_t>(computed / block_tokens_), published, all);
  for (std::size_t i = all; i-- > published;) {
    if (i >= whole) {
      give_back(held.table[i]);
      continue;
    }
    keep_idle(held.table[i]);
    block(held.table[i]).owner = id;
  }
  held.own_begin = published;
  held.own.assign(held.table.begin() + static_cast<std::ptrdiff_t>(published),
                  held.table.begin() + static_cast<std::ptrdiff_t>(whole));
  for (std::size_t i = published; i-- > 0;) {
    Block& b = block(held.table[i]);
    if (b.hashed && --b.holders > 0) continue;
    if (b.hashed)
      keep_idle(held.table[i]);
    else
      give_back(held.table[i]);
  }
  held.table.clear();
  held.published = 0;
}

void BlockPool::close(ReqId id) {
  disown(requests_[id]);
  requests_[id].hashes.clear();
}

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "sched/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "model/error.h"
#include "sched/kv_ledger.h"
#include "sched/router.h"

namespace plimsoll::sched {

// Each hash mixes in all of the sender's hashes that the KV block covers, and its position inside the last of them. So
// each KV block has its own hash.
std::vector<std::uint64_t> block_hashes(const KnownContent& content, Tok block_tokens) {
  std::vector<std::uint64_t> hashes;
  if (content.block_tokens <= 0) return hashes;
  const auto known = static_cast<std::int64_t>(content.hashes.size()) * content.block_tokens;
  // Only whole blocks can be shared: a part of one is computed again.
  const std::int64_t blocks = std::min<std::int64_t>(content.tokens, known) / block_tokens;
  if (content.chain && content.block_tokens == block_tokens) {
    hashes.assign(content.hashes.begin(), content.hashes.begin() + static_cast<std::ptrdiff_t>(blocks));
    return hashes;
  }
  hashes.reserve(static_cast<std::size_t>(blocks));
  const auto size = static_cast<std::uint64_t>(content.block_tokens);
  std::uint64_t path = 0, mixed = 0, last = static_cast<std::uint64_t>(block_tokens) - 1;
  for (std::int64_t i = 0; i < blocks; ++i, last += static_cast<std::uint64_t>(block_tokens)) {
    const std::uint64_t block = last / size, within = last % size;
    if (content.chain)
      path = content.hashes[block];
    else
      for (; mixed <= block; ++mixed) path = mix(path ^ content.hashes[mixed]);
    path = mix(path ^ (within + 1) * 0x9e3779b97f4a7c15ULL);
    hashes.push_back(path);
  }
  return hashes;
}

PrefixCache::PrefixCache(Blk blocks, Tok block_tokens, bool partial_first)
    : block_tokens_(block_tokens), partial_first_(partial_first) {
  push_idle(blocks, false);
}

void PrefixCache::open(ReqId id, std::span<const std::uint64_t> prompt_hashes) {
  if (prompt_hashes.empty()) return;
  holders_.make(id).hashes.assign(prompt_hashes.begin(), prompt_hashes.end());
}

// Finds the run that begins with the block at `from`, and how many of its blocks belong to the sequence.
PrefixCache::Match PrefixCache::match(std::span<const std::uint64_t> hashes, std::size_t from, std::size_t end) const {
  const std::int32_t run = by_hash_.find(hashes[from]);
  if (run < 0) return {};
  const Run& r = runs_[at(run)];
  const std::size_t most = std::min(static_cast<std::size_t>(r.count), end - from);
  const auto first = r.hashes.begin();
  // A hash covers all blocks before it, so equal hashes mean equal beginnings, and a run is compared as a whole.
  const auto differ = std::mismatch(first, first + static_cast<std::ptrdiff_t>(most),
                                    hashes.begin() + static_cast<std::ptrdiff_t>(from));
  return {run, static_cast<std::size_t>(differ.first - first)};
}

PrefixHit PrefixCache::hit(ReqId id, Tok limit) const {
  PrefixHit hit;
  const Holder* holder = holders_.find(id);
  if (holder == nullptr) return hit;
  const auto most = static_cast<std::size_t>(std::max<Tok>(limit, 0) / block_tokens_);
  const std::size_t end = std::min(most, holder->hashes.size());
  std::size_t blocks = 0;
  while (blocks < end) {
    const Match found = match(*holder, blocks, end);
    if (found.run < 0) break;
    if (runs_[at(found.run)].holders == 0) hit.idle_blocks += static_cast<Blk>(found.blocks);
    blocks += found.blocks;
  }
  hit.tokens = static_cast<Tok>(blocks) * block_tokens_;
  return hit;
}

std::size_t PrefixCache::known(std::span<const std::uint64_t> blocks) const {
  std::size_t known = 0;
  while (known < blocks.size()) {
    const Match found = match(blocks, known, blocks.size());
    if (found.run < 0) break;
    known += found.blocks;
  }
  return known;
}

std::int32_t PrefixCache::new_run() {
  if (free_runs_.empty()) {
    runs_.emplace_back();
    return static_cast<std::int32_t>(runs_.size() - 1);
  }
  const std::int32_t run = free_runs_.back();
  free_runs_.pop_back();
  return run;
}

// Adds blocks without hashes at the tail of the queue, or at its head.
void PrefixCache::push_idle(Blk count, bool at_head) {
  if (count == 0) return;
  const std::int32_t end = at_head ? head_ : tail_;
  // Blocks without content need no order among themselves: a queue of millions is one entry.
  if (end >= 0 && runs_[at(end)].kind == Kind::anonymous) {
    runs_[at(end)].count += count;
    return;
  }
  const std::int32_t run = new_run();
  runs_[at(run)].kind = Kind::anonymous;
  runs_[at(run)].count = count;
  link(run, at_head ? head_ : -1);
}

// Inserts the run into the queue before another run, or at the tail (before = -1).
void PrefixCache::link(std::int32_t run, std::int32_t before) {
  Run& r = runs_[at(run)];
  r.next = before;
  std::int32_t& back = before >= 0 ? runs_[at(before)].previous : tail_;
  r.previous = back;
  back = run;
  (r.previous >= 0 ? runs_[at(r.previous)].next : head_) = run;
}

void PrefixCache::unlink(std::int32_t run) {
  const Run& r = runs_[at(run)];
  (r.previous >= 0 ? runs_[at(r.previous)].next : head_) = r.next;
  (r.next >= 0 ? runs_[at(r.next)].previous : tail_) = r.previous;
}

// Keeps the first `blocks` blocks in the run; the others become a run of their own with the same holders. In the queue
// the others come first, since the last blocks of a sequence are freed first.
std::int32_t PrefixCache::split_one(std::int32_t run, std::size_t blocks) {
  const std::int32_t rest = new_run();
  Run &front = runs_[at(run)], &back = runs_[at(rest)];
  back.kind = Kind::hashed;
  back.hashes.assign(front.hashes.begin() + static_cast<std::ptrdiff_t>(blocks), front.hashes.begin() + front.count);
  back.count = front.count - static_cast<Blk>(blocks);
  back.holders = front.holders;
  back.rest = std::exchange(front.rest, rest);
  back.twin = -1;
  front.count = static_cast<Blk>(blocks);
  front.hashes.resize(blocks);
  if (front.holders == 0) link(rest, run);
  return rest;
}

// Splits all copies of a run, so that they stay equally long.
void PrefixCache::split(std::int32_t first, std::size_t blocks) {
  std::int32_t last = -1;
  for (std::int32_t run = first; run >= 0; run = runs_[at(run)].twin) {
    const std::int32_t rest = split_one(run, blocks);
    if (last >= 0)
      runs_[at(last)].twin = rest;
    else
      by_hash_.insert(runs_[at(rest)].hashes.front(), rest);
    last = rest;
  }
}

// Removes the run at the head from the queue and from the index.
void PrefixCache::evict_head() {
  const std::int32_t run = head_;
  Run& r = runs_[at(run)];
  if (r.kind == Kind::hashed) {
    const std::uint64_t hash = r.hashes.front();
    const std::int32_t first = by_hash_.find(hash);
    // The index names the first copy of a run. If that one goes, the next copy takes its place.
    if (first == run) {
      by_hash_.erase(hash);
      if (r.twin >= 0) by_hash_.insert(hash, r.twin);
    } else {
      std::int32_t before = first;
      while (runs_[at(before)].twin != run) before = runs_[at(before)].twin;
      runs_[at(before)].twin = r.twin;
    }
  }
  unlink(run);
  r.kind = Kind::anonymous;
  r.twin = -1;
  free_runs_.push_back(run);
}

void PrefixCache::take(Blk blocks) {
  while (blocks > 0) {
    PLIMSOLL_CHECK(head_ >= 0, "the queue of idle blocks ran dry");
    const Run& r = runs_[at(head_)];
    if (r.kind == Kind::hashed && blocks < r.count) {
      // If there are copies, the blocks to take are first split off as a run of their own, which is then at the head.
      const auto kept = static_cast<std::size_t>(r.count - blocks);
      const std::int32_t first = by_hash_.find(r.hashes.front());
      if (first == head_ && r.twin < 0) {
        runs_[at(head_)].hashes.resize(kept);
        runs_[at(head_)].count -= blocks;
        return;
      }
      split(first, kept);
      continue;
    }
    if (blocks < r.count) {
      runs_[at(head_)].count -= blocks;
      return;
    }
    blocks -= r.count;
    evict_head();
  }
}

Blk PrefixCache::attach(ReqId id, Tok tokens) {
  Holder& h = holders_.make(id);
  const auto blocks = static_cast<std::size_t>(tokens / block_tokens_);
  Blk were_idle = 0;
  h.pieces.clear();
  h.published = 0;
  while (h.published < blocks) {
    const Match found = match(h, h.published, blocks);
    PLIMSOLL_CHECK(found.run >= 0, "the attached prefix is still cached");
    const auto count = static_cast<Blk>(found.blocks);
    if (count < runs_[at(found.run)].count) split(found.run, found.blocks);
    // Held runs leave the queue: they cannot be taken.
    if (runs_[at(found.run)].holders++ == 0) {
      unlink(found.run);
      were_idle += count;
    }
    h.pieces.push_back({found.run, count});
    h.published += found.blocks;
  }
  return were_idle;
}

// A block without a run neither begins nor extends an existing run, so all pieces of a request are whole runs.
void PrefixCache::publish(ReqId id, Tok computed) {
  Holder* found = holders_.find(id);
  if (found == nullptr) return;
  Holder& h = *found;
  const std::size_t end = std::min(static_cast<std::size_t>(computed / block_tokens_), h.hashes.size());
  while (h.published < end) {
    const Match other = match(h, h.published, end);
    if (other.run >= 0)
      publish_copy(h, other);
    else
      publish_fresh(h, end);
  }
}

std::int32_t PrefixCache::new_hashed(const Holder& holder, std::size_t from, std::size_t to) {
  const std::int32_t run = new_run();
  Run& r = runs_[at(run)];
  r.kind = Kind::hashed;
  r.hashes.assign(holder.hashes.begin() + static_cast<std::ptrdiff_t>(from),
                  holder.hashes.begin() + static_cast<std::ptrdiff_t>(to));
  r.count = static_cast<Blk>(to - from);
  r.holders = 1;
  r.rest = r.twin = -1;
  return run;
}

// Another request published the same content first: this request's blocks become a further copy.
void PrefixCache::publish_copy(Holder& holder, const Match& other) {
  if (static_cast<Blk>(other.blocks) < runs_[at(other.run)].count) split(other.run, other.blocks);
  const std::int32_t run = new_hashed(holder, holder.published, holder.published + other.blocks);
  std::int32_t last = other.run;
  while (runs_[at(last)].twin >= 0) last = runs_[at(last)].twin;
  runs_[at(last)].twin = run;
  holder.pieces.push_back({run, static_cast<Blk>(other.blocks)});
  holder.published += other.blocks;
}

// Publishes the next block, which is in no run, and the following blocks up to the first that is in one. If the request
// is the only holder of its last run, they extend that run, so that a prompt in chunks becomes one run.
void PrefixCache::publish_fresh(Holder& holder, std::size_t end) {
  const std::size_t from = holder.published;
  std::size_t to = from + 1;
  while (to < end && by_hash_.find(holder.hashes[to]) < 0) ++to;
  holder.published = to;
  const auto count = static_cast<Blk>(to - from);
  if (!holder.pieces.empty()) {
    Piece& piece = holder.pieces.back();
    Run& r = runs_[at(piece.run)];
    // The last run may grow only if no other request and no copy depends on where it ends.
    if (r.holders == 1 && r.count == piece.count && r.twin < 0 && by_hash_.find(r.hashes.front()) == piece.run) {
      r.hashes.insert(r.hashes.end(), holder.hashes.begin() + static_cast<std::ptrdiff_t>(from),
                      holder.hashes.begin() + static_cast<std::ptrdiff_t>(to));
      r.count += count;
      r.rest = -1;
      piece.count += count;
      return;
    }
  }
  const std::int32_t run = new_hashed(holder, from, to);
  by_hash_.insert(runs_[at(run)].hashes.front(), run);
  holder.pieces.push_back({run, count});
}

// Adds hashes for blocks that only this request can look up: generated tokens, and prompts with unknown content.
void PrefixCache::add_own_hashes(Holder& holder, std::size_t blocks) {
  constexpr std::uint64_t kOwn = 0xd1b54a32d192ed03ULL;  // keeps them distinct from the hashes of block_hashes()
  if (holder.identity == 0) holder.identity = mix(++identities_ ^ kOwn);
  while (holder.hashes.size() < blocks) holder.hashes.push_back(mix(mix(holder.identity ^ holder.hashes.size())));
}

Blk PrefixCache::release(ReqId id, Blk held, Tok computed, bool returns) {
  const Blk whole = std::min<Blk>(computed / block_tokens_, held);
  if (returns && whole > 0) {
    add_own_hashes(holders_.make(id), static_cast<std::size_t>(whole));
    publish(id, computed);
  }
  Holder* const h = holders_.find(id);
  const Blk published = h == nullptr ? 0 : static_cast<Blk>(h->published);
  Blk became_idle = held - published;
  // Blocks behind the complete ones have no content that can be found again. Newer versions of vLLM use such blocks
  // first.
  const Blk partial = std::min(held - whole, became_idle);
  push_idle(partial, partial_first_);
  push_idle(became_idle - partial, false);
  if (h == nullptr) return became_idle;
  // The tail first, as in vLLM: blocks freed first are evicted first, so the beginning of a prompt lives longest.
  for (auto piece = h->pieces.rbegin(); piece != h->pieces.rend(); ++piece) {
    parts_.clear();
    for_parts(*piece, [this](std::int32_t run) { parts_.push_back(run); });
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      if (--runs_[at(*part)].holders > 0) continue;
      link(*part, -1);
      became_idle += runs_[at(*part)].count;
    }
  }
  h->pieces.clear();
  h->published = 0;
  return became_idle;
}

void PrefixCache::close(ReqId id) {
  Holder* h = holders_.find(id);
  if (h == nullptr) return;
  h->hashes.clear();
  h->identity = 0;
  holders_.erase(id);
}

}  // namespace plimsoll::sched

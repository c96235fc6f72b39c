// SPDX-License-Identifier: Apache-2.0
#include "sched/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "model/error.h"
#include "sched/kv_ledger.h"
#include "sched/router.h"

namespace plimsoll::sched {

namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

// Every id that a KV block covers is mixed in, and its position inside the trace's block, so that each KV block has its
// own hash.
std::vector<std::uint64_t> block_hashes(std::span<const std::uint64_t> prefix_hashes, Tok hash_block_tokens, Tok input,
                                        Tok block_tokens) {
  std::vector<std::uint64_t> hashes;
  if (hash_block_tokens <= 0) return hashes;
  const auto known = static_cast<std::int64_t>(prefix_hashes.size()) * hash_block_tokens;
  const std::int64_t blocks = std::min<std::int64_t>(input, known) / block_tokens;
  hashes.reserve(static_cast<std::size_t>(blocks));
  const auto size = static_cast<std::uint64_t>(hash_block_tokens);
  std::uint64_t path = 0, mixed = 0, last = static_cast<std::uint64_t>(block_tokens) - 1;
  for (std::int64_t i = 0; i < blocks; ++i, last += static_cast<std::uint64_t>(block_tokens)) {
    const std::uint64_t block = last / size, within = last % size;
    for (; mixed <= block; ++mixed) path = mix(path ^ prefix_hashes[mixed]);
    path = mix(path ^ (within + 1) * 0x9e3779b97f4a7c15ULL);
    hashes.push_back(path);
  }
  return hashes;
}

PrefixCache::PrefixCache(Blk blocks, Tok block_tokens) : block_tokens_(block_tokens) {
  push_idle(Kind::anonymous, blocks, -1);
}

void PrefixCache::open(ReqId id, std::span<const std::uint64_t> prompt_hashes) {
  if (prompt_hashes.empty()) return;
  holders_.make(id).hashes.assign(prompt_hashes.begin(), prompt_hashes.end());
}

// The run that begins with the block at `from`, and how many of its blocks are those of the prompt.
PrefixCache::Match PrefixCache::match(const Holder& holder, std::size_t from, std::size_t end) const {
  const std::int32_t run = by_hash_.find(holder.hashes[from]);
  if (run < 0) return {};
  const Run& r = runs_[at(run)];
  const std::size_t most = std::min(static_cast<std::size_t>(r.count), end - from);
  const auto first = r.hashes.begin();
  const auto differ = std::mismatch(first, first + static_cast<std::ptrdiff_t>(most),
                                    holder.hashes.begin() + static_cast<std::ptrdiff_t>(from));
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
  if (holder->own >= 0 && blocks == holder->own_begin) {
    const auto own = std::min(static_cast<std::size_t>(runs_[at(holder->own)].count), most - blocks);
    blocks += own;
    hit.idle_blocks += static_cast<Blk>(own);
  }
  hit.tokens = static_cast<Tok>(blocks) * block_tokens_;
  return hit;
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

std::int32_t PrefixCache::push_idle(Kind kind, Blk count, std::int32_t request) {
  if (count == 0) return -1;
  if (kind == Kind::anonymous && tail_ >= 0 && runs_[at(tail_)].kind == Kind::anonymous) {
    runs_[at(tail_)].count += count;
    return tail_;
  }
  const std::int32_t run = new_run();
  Run& r = runs_[at(run)];
  r.kind = kind;
  r.count = count;
  r.request = request;
  link(run, -1);
  return run;
}

// Into the queue before another run, or at its tail (-1).
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

void PrefixCache::drop(std::int32_t run) {
  unlink(run);
  runs_[at(run)].kind = Kind::anonymous;
  free_runs_.push_back(run);
}

// A hashed run keeps its first `blocks` blocks; the others become a run of their own with the same holders. In the
// queue the others come first, since the last blocks of a prompt were freed first.
void PrefixCache::split(std::int32_t run, std::size_t blocks) {
  const std::int32_t rest = new_run();
  Run &front = runs_[at(run)], &back = runs_[at(rest)];
  back.kind = Kind::hashed;
  back.hashes.assign(front.hashes.begin() + static_cast<std::ptrdiff_t>(blocks), front.hashes.begin() + front.count);
  back.count = front.count - static_cast<Blk>(blocks);
  back.holders = front.holders;
  back.rest = std::exchange(front.rest, rest);
  front.count = static_cast<Blk>(blocks);
  front.hashes.resize(blocks);
  by_hash_.insert(back.hashes.front(), rest);
  if (front.holders == 0) link(rest, run);
}

// The run at the head has lost its last block.
void PrefixCache::evict_head() {
  const Run& r = runs_[at(head_)];
  if (r.kind == Kind::own) holders_.find(static_cast<ReqId>(r.request))->own = -1;
  if (r.kind == Kind::hashed) by_hash_.erase(r.hashes.front());
  drop(head_);
}

void PrefixCache::take(Blk blocks) {
  while (blocks > 0) {
    PLIMSOLL_CHECK(head_ >= 0, "the queue of idle blocks ran dry");
    Run& r = runs_[at(head_)];
    const Blk taken = std::min(blocks, r.count);  // the last positions go first: they were freed first
    r.count -= taken;
    blocks -= taken;
    if (r.count == 0) evict_head();
  }
}

Blk PrefixCache::attach(ReqId id, Tok tokens) {
  Holder& h = holders_.make(id);
  const auto blocks = static_cast<std::size_t>(tokens / block_tokens_);
  const std::size_t end = std::min(blocks, h.hashes.size());
  Blk were_idle = 0;
  h.pieces.clear();
  h.published = 0;
  while (h.published < end) {
    const Match found = match(h, h.published, end);
    if (found.run < 0) break;
    const auto count = static_cast<Blk>(found.blocks);
    if (count < runs_[at(found.run)].count) split(found.run, found.blocks);
    if (runs_[at(found.run)].holders++ == 0) {
      unlink(found.run);
      were_idle += count;
    }
    h.pieces.push_back({found.run, count});
    h.published += found.blocks;
  }
  if (h.published < blocks) {
    const auto own = static_cast<Blk>(blocks - h.published);
    PLIMSOLL_CHECK(h.own >= 0 && runs_[at(h.own)].count >= own, "a prefix is attached as it was hit");
    Run& run = runs_[at(h.own)];
    run.count -= own;
    were_idle += own;
    run.kind = Kind::anonymous;  // what is left of it will be computed anew
    if (run.count == 0) drop(h.own);
    h.own = -1;
  }
  return were_idle;
}

// If another request had published the last block first: the run that holds that block, and how far into it. The run
// may have been evicted or split since, so its first block is looked up again, going back from the last one.
PrefixCache::Match PrefixCache::behind(const Holder& holder) const {
  if (holder.pieces.empty() || holder.pieces.back().run >= 0) return {};
  const std::size_t begin = holder.published - static_cast<std::size_t>(holder.pieces.back().count);
  for (std::size_t first = holder.published; first-- > begin;) {
    const std::int32_t run = by_hash_.find(holder.hashes[first]);
    if (run < 0) continue;
    const Run& r = runs_[at(run)];
    const std::size_t blocks = holder.published - first;
    const bool there =
        static_cast<std::size_t>(r.count) >= blocks && r.hashes[blocks - 1] == holder.hashes[holder.published - 1];
    return there ? Match{run, blocks} : Match{};
  }
  return {};
}

// A block is in the cache at most once. Its hash determines all blocks before it, so it is either the first block of
// its run or directly behind its predecessor. There is no third place to look in.
void PrefixCache::publish(ReqId id, Tok computed) {
  Holder* found = holders_.find(id);
  if (found == nullptr) return;
  Holder& h = *found;
  const std::size_t end = std::min(static_cast<std::size_t>(computed / block_tokens_), h.hashes.size());
  if (h.published >= end) return;
  if (const Match other = behind(h); other.run >= 0) {
    const Run& r = runs_[at(other.run)];
    std::size_t more = 0;
    while (h.published + more < end && other.blocks + more < static_cast<std::size_t>(r.count) &&
           r.hashes[other.blocks + more] == h.hashes[h.published + more])
      ++more;
    add_foreign(h, more);
  }
  while (h.published < end) {
    const Match other = match(h, h.published, end);
    if (other.run >= 0)
      add_foreign(h, other.blocks);
    else
      publish_fresh(h, end);
  }
}

void PrefixCache::add_foreign(Holder& holder, std::size_t blocks) {
  if (blocks == 0) return;
  holder.published += blocks;
  if (holder.pieces.empty() || holder.pieces.back().run >= 0) holder.pieces.push_back({});
  holder.pieces.back().count += static_cast<Blk>(blocks);
}

// Publishes the next block, which is in no run, and those behind it that are in none. They lengthen the request's last
// run if it alone holds that one, so that a prompt in chunks becomes one run.
void PrefixCache::publish_fresh(Holder& holder, std::size_t end) {
  const std::size_t from = holder.published;
  std::size_t to = from + 1;
  while (to < end && by_hash_.find(holder.hashes[to]) < 0) ++to;
  const auto count = static_cast<Blk>(to - from);
  const auto first = holder.hashes.begin() + static_cast<std::ptrdiff_t>(from),
             last = holder.hashes.begin() + static_cast<std::ptrdiff_t>(to);
  holder.published = to;
  if (!holder.pieces.empty() && holder.pieces.back().run >= 0) {
    Piece& piece = holder.pieces.back();
    Run& r = runs_[at(piece.run)];
    if (r.holders == 1 && r.count == piece.count) {
      r.hashes.resize(static_cast<std::size_t>(r.count));
      r.hashes.insert(r.hashes.end(), first, last);
      r.count += count;
      r.rest = -1;
      piece.count += count;
      return;
    }
  }
  const std::int32_t run = new_run();
  Run& r = runs_[at(run)];
  r.kind = Kind::hashed;
  r.hashes.assign(first, last);
  r.count = count;
  r.holders = 1;
  r.rest = -1;
  by_hash_.insert(r.hashes.front(), run);
  holder.pieces.push_back({run, count});
}

void PrefixCache::forget_own(Holder& holder) {
  if (holder.own >= 0) runs_[at(holder.own)].kind = Kind::anonymous;
  holder.own = -1;
}

Blk PrefixCache::release(ReqId id, Blk held, Tok computed) {
  if (holders_.find(id) == nullptr && computed < block_tokens_) {
    push_idle(Kind::anonymous, held, -1);
    return held;
  }
  Holder& h = holders_.make(id);
  const auto published = static_cast<Blk>(h.published);
  const Blk whole = std::clamp<Blk>(computed / block_tokens_, std::min(published, held), held);
  forget_own(h);  // what an earlier preemption left behind is out of date
  push_idle(Kind::anonymous, held - whole, -1);
  Blk became_idle = held - std::min(published, held);
  h.own_begin = h.published;
  if (whole > published) h.own = push_idle(Kind::own, whole - published, static_cast<std::int32_t>(id));
  for (auto piece = h.pieces.rbegin(); piece != h.pieces.rend(); ++piece) {
    if (piece->run < 0) {
      push_idle(Kind::anonymous, piece->count, -1);
      became_idle += piece->count;
      continue;
    }
    parts_.clear();
    for_parts(*piece, [this](std::int32_t run) { parts_.push_back(run); });
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      if (--runs_[at(*part)].holders > 0) continue;
      link(*part, -1);
      became_idle += runs_[at(*part)].count;
    }
  }
  h.pieces.clear();
  h.published = 0;
  return became_idle;
}

void PrefixCache::close(ReqId id) {
  Holder* h = holders_.find(id);
  if (h == nullptr) return;
  forget_own(*h);
  h->hashes.clear();
  holders_.erase(id);
}

}  // namespace plimsoll::sched

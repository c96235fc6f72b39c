// SPDX-License-Identifier: Apache-2.0
// The prefix cache through the ledger that owns it.
#include "sched/prefix_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "sched/kv_ledger.h"
#include "tests/sched/script_harness.h"

namespace plimsoll::sched {
namespace {

using Hashes = std::vector<std::uint64_t>;

KvLedger caching(Blk blocks, Tok block_tokens = 4) {
  return KvLedger({.blocks = blocks, .block_tokens = block_tokens, .prefix_caching = true});
}

// The request's prompt is prefilled: what is cached of it is attached, the rest computed.
Tok prefill(KvLedger& kv, ReqId id, Tok tokens) {
  const PrefixHit hit = kv.prefix_hit(id, tokens - 1);
  if (hit.tokens > 0) kv.attach_prefix(id, hit.tokens);
  kv.grow(id, tokens);
  kv.publish(id, tokens);
  return hit.tokens;
}
void end(KvLedger& kv, ReqId id) {
  kv.release(id, 0);
  kv.close(id);
}

TEST(PrefixCache, SharesWholeBlocksOfAPrefix) {
  KvLedger kv = caching(10);
  kv.open(0, Hashes{1, 2, 3});
  EXPECT_EQ(prefill(kv, 0, 13), 0);
  kv.open(1, Hashes{1, 2, 9});
  EXPECT_EQ(kv.prefix_hit(1, 12).tokens, 8);
  EXPECT_EQ(kv.prefix_hit(1, 12).idle_blocks, 0);  // 0 holds them
  EXPECT_EQ(kv.prefix_hit(1, 7).tokens, 4);        // whole blocks within the limit
  EXPECT_EQ(prefill(kv, 1, 13), 8);
  EXPECT_EQ(kv.in_use(), 6);  // 4, and 2 more
  end(kv, 0);
  EXPECT_EQ(kv.in_use(), 4);
  end(kv, 1);
  EXPECT_EQ(kv.in_use(), 0);
}

// A KV block of 32 tokens covers two ids of 16. Blocks are equal only if both ids are, the first one included.
TEST(PrefixCache, ABlockDependsOnEveryIdThatItCovers) {
  const std::vector<std::uint64_t> a{1, 9, 5, 6}, b{2, 9, 5, 6}, c{1, 9, 5, 7};
  const auto of = [](const std::vector<std::uint64_t>& ids) { return block_hashes(ids, 16, 64, 32); };
  EXPECT_NE(of(a)[0], of(b)[0]);
  EXPECT_EQ(of(a)[0], of(c)[0]);
  EXPECT_NE(of(a)[1], of(c)[1]);
}

TEST(PrefixCache, KeepsContentThatNobodyHolds) {
  KvLedger kv = caching(4);
  kv.open(0, Hashes{1, 2});
  prefill(kv, 0, 8);
  end(kv, 0);
  EXPECT_EQ(kv.free(), 4);
  kv.open(1, Hashes{1, 2});
  EXPECT_EQ(kv.prefix_hit(1, 8).tokens, 8);
  EXPECT_EQ(kv.prefix_hit(1, 8).idle_blocks, 2);  // they stop being free when they are attached
  kv.attach_prefix(1, 8);
  EXPECT_EQ(kv.free(), 2);
}

// 6 blocks: 1 2 of the first, then 5 6 of the second, then two that never held anything at the head of the queue.
TEST(PrefixCache, LosesTheLeastRecentlyFreedTailFirst) {
  KvLedger kv = caching(6);
  kv.open(0, Hashes{1, 2});
  kv.open(1, Hashes{5, 6});
  prefill(kv, 0, 8);
  prefill(kv, 1, 8);
  end(kv, 0);
  end(kv, 1);
  const auto cached = [&](Hashes hashes) {
    kv.open(7, hashes);
    const Tok tokens = kv.prefix_hit(7, 100).tokens;
    kv.close(7);
    return tokens;
  };
  kv.open(2, {});
  kv.grow(2, 8);
  EXPECT_EQ(cached({1, 2}), 8);
  kv.grow(2, 12);  // takes block 2
  EXPECT_EQ(cached({1, 2}), 4);
  kv.grow(2, 16);
  EXPECT_EQ(cached({1, 2}), 0);
  EXPECT_EQ(cached({5, 6}), 8);
  kv.grow(2, 20);
  EXPECT_EQ(cached({5, 6}), 4);
}

TEST(PrefixCache, APreemptedRequestFindsItsOwnTokens) {
  KvLedger kv = caching(6);
  kv.open(0, Hashes{1});
  prefill(kv, 0, 5);
  kv.join_group(0, 5);
  kv.advance_group(6);  // 11 tokens: prompt block 1, one whole block of its own, 3 tokens
  kv.release(0, 11);
  EXPECT_EQ(kv.free(), 6);
  EXPECT_EQ(kv.prefix_hit(0, 11).tokens, 8);
  kv.open(1, Hashes{1, 2});
  EXPECT_EQ(kv.prefix_hit(1, 11).tokens, 4);  // generated tokens are the request's own
  kv.attach_prefix(0, 8);
  EXPECT_EQ(kv.held(0), 2);
  EXPECT_EQ(kv.free(), 4);
}

TEST(PrefixCache, HitsOfVllmV1InAScript) {  // S5: the first of B's blocks is still there
  PolicyConfig policy;
  policy.policy = PolicyKind::vllm_v1;
  const KvConfig kv{.blocks = 4, .block_tokens = 4, .prefix_caching = true};
  EXPECT_EQ(testing::run_script(policy, kv, "A:4+6 B:4+6").log,
            "1: P[A:4 B:4]\n2: D[A B]\n3: D[A B]\n4: D[A B]\n5: D[A B]\n6: D[A] !B\n7: P[B:5]\n");
}

// Every block with its content, in a list.
class NaiveCache {
 public:
  struct Block {
    std::uint64_t hash = 0;  // 0: nothing that others may find
    int owner = -1;          // of a preempted request's own tokens
    std::size_t position = 0;
  };
  explicit NaiveCache(Blk blocks) : idle(static_cast<std::size_t>(blocks)) {}

  [[nodiscard]] bool findable(std::uint64_t hash) const {
    const auto has = [&](const Block& b) { return b.hash == hash; };
    return std::any_of(idle.begin(), idle.end(), has) ||
           std::any_of(shared.begin(), shared.end(), [&](const auto& s) { return s.first == hash; });
  }
  [[nodiscard]] std::size_t hit(int id, const Hashes& hashes, std::size_t own_begin) const {
    std::size_t n = 0;
    while (n < hashes.size() && findable(hashes[n])) ++n;
    if (n != own_begin) return n;
    while (std::any_of(idle.begin(), idle.end(), [&](const Block& b) { return b.owner == id && b.position == n; })) ++n;
    return n;
  }
  void take(std::size_t count) { idle.erase(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(count)); }

  std::deque<Block> idle;
  std::vector<std::pair<std::uint64_t, int>> shared;  // hash and how many hold it
};

struct Person {
  Hashes hashes;
  std::size_t held = 0, own_begin = 0, published = 0;
  std::vector<bool> mine;  // published blocks whose content is under this hash in `shared`
};

// Requests whose prompts branch off each other after any block; each is prefilled in chunks, preempted, resumes and
// ends at random.
RC_GTEST_PROP(PrefixCacheProperty, FindsWhatAListOfBlocksHolds, ()) {
  constexpr Blk kBlocks = 14;
  KvLedger kv = caching(kBlocks, 1);
  NaiveCache naive(kBlocks);
  std::vector<Person> people(4);
  const auto let_go = [&](std::size_t who, bool keeps) {
    Person& p = people[who];
    std::vector<NaiveCache::Block> back;
    for (std::size_t i = p.published; keeps && i < p.held; ++i) back.push_back({0, static_cast<int>(who), i});
    if (!keeps) back.resize(p.held - p.published);
    for (NaiveCache::Block& b : naive.idle)  // what an earlier preemption left
      if (b.owner == static_cast<int>(who)) b.owner = -1;
    for (auto it = back.rbegin(); it != back.rend(); ++it) naive.idle.push_back(*it);
    for (std::size_t i = p.published; i-- > 0;) {
      if (!p.mine[i]) {
        naive.idle.push_back({});
        continue;
      }
      const auto s =
          std::find_if(naive.shared.begin(), naive.shared.end(), [&](const auto& x) { return x.first == p.hashes[i]; });
      if (--s->second > 0) continue;
      naive.idle.push_back({s->first, -1, 0});
      naive.shared.erase(s);
    }
    kv.release(static_cast<ReqId>(who), keeps ? static_cast<Tok>(p.held) : 0);
    p.own_begin = p.published;
    p.held = p.published = 0;
    p.mine.clear();
  };
  const auto prefill_one = [&](std::size_t who, std::size_t length) {
    Person& p = people[who];
    const std::size_t found = std::min(naive.hit(static_cast<int>(who), p.hashes, p.own_begin), length);
    const PrefixHit hit = kv.prefix_hit(static_cast<ReqId>(who), static_cast<Tok>(length));
    RC_ASSERT(static_cast<std::size_t>(hit.tokens) == found);
    std::size_t fresh_idle = 0;
    for (std::size_t i = 0; i < found; ++i) {
      const bool hashed = i < p.hashes.size() && naive.findable(p.hashes[i]);
      const auto block = std::find_if(naive.idle.begin(), naive.idle.end(), [&](const NaiveCache::Block& b) {
        return hashed ? b.hash == p.hashes[i] : b.owner == static_cast<int>(who) && b.position == i;
      });
      if (block != naive.idle.end()) {
        ++fresh_idle;
        if (hashed) naive.shared.emplace_back(p.hashes[i], 0);
        naive.idle.erase(block);
      }
      if (!hashed) continue;
      ++std::find_if(naive.shared.begin(), naive.shared.end(), [&](const auto& x) {
          return x.first == p.hashes[i];
        })->second;
      p.mine.push_back(true);
      ++p.published;
    }
    RC_ASSERT(static_cast<std::size_t>(hit.idle_blocks) == fresh_idle);
    if (naive.idle.size() + found < length) RC_DISCARD("the pool is too small");
    if (found > 0) kv.attach_prefix(static_cast<ReqId>(who), static_cast<Tok>(found));
    if (found > p.published)
      for (NaiveCache::Block& b : naive.idle)
        if (b.owner == static_cast<int>(who)) b.owner = -1;
    naive.take(length - found);
    kv.grow(static_cast<ReqId>(who), static_cast<std::int64_t>(length));
    p.held = length;
  };
  const auto publish = [&](std::size_t who, std::size_t blocks) {
    Person& p = people[who];
    kv.publish(static_cast<ReqId>(who), static_cast<Tok>(blocks));
    for (; p.published < std::min(blocks, p.hashes.size()); ++p.published) {
      const std::uint64_t hash = p.hashes[p.published];
      p.mine.push_back(!naive.findable(hash));
      if (p.mine.back()) naive.shared.emplace_back(hash, 1);
    }
  };
  const auto begin = [&](std::size_t who) {
    Person& p = people[who];
    p = Person{};
    const auto blocks = *rc::gen::inRange<std::size_t>(0, 7);
    std::uint64_t path = 1;  // base 3, so that a number tells all branches taken
    for (std::size_t i = 0; i < blocks; ++i)
      p.hashes.push_back(path = 3 * path + *rc::gen::inRange<std::uint64_t>(0, 2));
    kv.open(static_cast<ReqId>(who), p.hashes);
  };
  for (std::size_t who = 0; who < people.size(); ++who) begin(who);
  const int count = *rc::gen::inRange(1, 60);
  for (int n = 0; n < count; ++n) {
    const auto who = *rc::gen::inRange<std::size_t>(0, people.size());
    if (people[who].held == 0) {
      const auto length = *rc::gen::inRange<std::size_t>(1, 8);
      prefill_one(who, length);
      publish(who, *rc::gen::inRange<std::size_t>(0, length + 1));
    } else if (*rc::gen::inRange(0, 3) > 0) {
      publish(who, *rc::gen::inRange<std::size_t>(0, people[who].held + 1));
    } else if (*rc::gen::arbitrary<bool>()) {
      let_go(who, true);
    } else {
      let_go(who, false);
      for (NaiveCache::Block& b : naive.idle)
        if (b.owner == static_cast<int>(who)) b.owner = -1;
      kv.close(static_cast<ReqId>(who));
      begin(who);
    }
    RC_ASSERT(kv.free() == static_cast<Blk>(naive.idle.size()));
  }
}

}  // namespace
}  // namespace plimsoll::sched

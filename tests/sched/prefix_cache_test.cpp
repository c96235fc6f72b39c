// SPDX-License-Identifier: Apache-2.0
// Tests the prefix cache through the ledger that owns it.
#include "sched/prefix_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "sched/kv_ledger.h"
#include "tests/sched/script_harness.h"

namespace plimsoll::sched {
namespace {

using Hashes = std::vector<std::uint64_t>;

KvLedger caching(Blk blocks, Tok block_tokens = 4) {
  return KvLedger({.blocks = blocks, .block_tokens = block_tokens, .prefix_caching = true});
}

// Prefills the request's prompt: attaches the cached part and computes the rest. Returns the cached tokens.
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
  EXPECT_EQ(kv.prefix_hit(1, 12).idle_blocks, 0);  // request 0 holds them
  EXPECT_EQ(kv.prefix_hit(1, 7).tokens, 4);        // full blocks within the limit
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
  const auto of = [](const std::vector<std::uint64_t>& ids) {
    return block_hashes({.hashes = ids, .block_tokens = 16, .tokens = 64}, 32);
  };
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
  EXPECT_EQ(kv.prefix_hit(1, 8).idle_blocks, 2);  // they are no longer free once they are attached
  kv.attach_prefix(1, 8);
  EXPECT_EQ(kv.free(), 2);
}

// 6 blocks: 1 2 of the first request, 5 6 of the second, and two unused ones, which are at the head of the queue.
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
  kv.advance_group(6);  // 11 tokens: prompt block 1, one full block of its own, 3 more tokens
  kv.release(0, 11);
  EXPECT_EQ(kv.free(), 6);
  EXPECT_EQ(kv.prefix_hit(0, 11).tokens, 8);
  kv.open(1, Hashes{1, 2});
  EXPECT_EQ(kv.prefix_hit(1, 11).tokens, 4);  // other requests do not share generated tokens
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

// A pool that stores each block separately, with its content and its holders.
struct NaivePool {
  explicit NaivePool(std::size_t blocks) : content(blocks, 0), holders(blocks, 0) {
    for (std::size_t i = 0; i < blocks; ++i) idle.push_back(i);
  }
  // Returns the block with this content that was published first.
  [[nodiscard]] std::optional<std::size_t> find(std::uint64_t hash) const {
    const auto found = copies.find(hash);
    if (found == copies.end() || found->second.empty()) return {};
    return found->second.front();
  }
  void hold(std::size_t block) {
    if (holders[block]++ == 0) std::erase(idle, block);
  }
  std::size_t take() {
    const std::size_t block = idle.front();
    idle.pop_front();
    if (content[block] != 0) std::erase(copies[content[block]], block);
    content[block] = 0;
    holders[block] = 1;
    return block;
  }
  void publish(std::size_t block, std::uint64_t hash) {
    content[block] = hash;
    copies[hash].push_back(block);
  }
  void let_go(std::size_t block) {
    if (--holders[block] == 0) idle.push_back(block);
  }

  std::vector<std::uint64_t> content;
  std::vector<int> holders;
  std::deque<std::size_t> idle;
  std::map<std::uint64_t, std::vector<std::size_t>> copies;
};

struct Prompter {
  Hashes hashes;
  std::vector<std::size_t> table;
  std::size_t published = 0;
};

// Requests of the ledger and of the pool at once.
class Twins {
 public:
  void begin(std::size_t i) {
    Prompter& p = prompters[i];
    p = Prompter{};
    const auto blocks = *rc::gen::inRange<std::size_t>(0, 7);
    std::uint64_t path = 1;  // in base 3, so that the number identifies all branches taken
    for (std::size_t block = 0; block < blocks; ++block)
      p.hashes.push_back(path = 3 * path + *rc::gen::inRange<std::uint64_t>(0, 2));
    kv.open(static_cast<ReqId>(i), p.hashes);
  }

  void prefill(std::size_t i, std::size_t length) {
    Prompter& p = prompters[i];
    const PrefixHit hit = kv.prefix_hit(static_cast<ReqId>(i), static_cast<Tok>(length));
    Blk idle = 0;
    std::vector<std::size_t> found;
    for (std::size_t block = 0; block < std::min(length, p.hashes.size()); ++block) {
      const auto copy = naive.find(p.hashes[block]);
      if (!copy) break;
      idle += naive.holders[*copy] == 0 ? 1 : 0;
      found.push_back(*copy);
    }
    RC_ASSERT(static_cast<std::size_t>(hit.tokens) == found.size());
    RC_ASSERT(hit.idle_blocks == idle);
    if (naive.idle.size() - static_cast<std::size_t>(idle) + found.size() < length) RC_DISCARD("the pool is too small");
    if (!found.empty()) kv.attach_prefix(static_cast<ReqId>(i), hit.tokens);
    for (const std::size_t block : found) naive.hold(block);
    p.table = found;
    p.published = found.size();
    while (p.table.size() < length) p.table.push_back(naive.take());
    kv.grow(static_cast<ReqId>(i), static_cast<std::int64_t>(length));
  }

  void publish(std::size_t i, std::size_t blocks) {
    kv.publish(static_cast<ReqId>(i), static_cast<Tok>(blocks));
    publish_naive(prompters[i], blocks);
  }

  void let_go(std::size_t i, bool keeps) {
    Prompter& p = prompters[i];
    const std::size_t held = p.table.size();
    while (keeps && p.hashes.size() < held) p.hashes.push_back(++own_);
    if (keeps) publish_naive(p, held);
    for (auto block = p.table.rbegin(); block != p.table.rend(); ++block) naive.let_go(*block);
    kv.release(static_cast<ReqId>(i), keeps ? static_cast<Tok>(held) : 0, keeps);
    p.table.clear();
    p.published = 0;
  }

  KvLedger kv = caching(kBlocks, 1);
  NaivePool naive{kBlocks};
  std::vector<Prompter> prompters = std::vector<Prompter>(4);

 private:
  static constexpr Blk kBlocks = 14;

  void publish_naive(Prompter& p, std::size_t blocks) {
    for (; p.published < std::min(blocks, p.hashes.size()); ++p.published)
      naive.publish(p.table[p.published], p.hashes[p.published]);
  }

  std::uint64_t own_ = std::uint64_t{1} << 60U;  // content that only its request can find
};

// Requests whose prompts branch off each other after any block. Each is prefilled in chunks, preempted, resumed and
// ended at random.
RC_GTEST_PROP(PrefixCacheProperty, FindsWhatAListOfBlocksHolds, ()) {
  Twins twins;
  for (std::size_t i = 0; i < twins.prompters.size(); ++i) twins.begin(i);
  const int count = *rc::gen::inRange(1, 60);
  for (int n = 0; n < count; ++n) {
    const auto i = *rc::gen::inRange<std::size_t>(0, twins.prompters.size());
    if (twins.prompters[i].table.empty()) {
      const auto length = *rc::gen::inRange<std::size_t>(1, 8);
      twins.prefill(i, length);
      twins.publish(i, *rc::gen::inRange<std::size_t>(0, length + 1));
    } else if (*rc::gen::inRange(0, 3) > 0) {
      twins.publish(i, *rc::gen::inRange<std::size_t>(0, twins.prompters[i].table.size() + 1));
    } else if (*rc::gen::arbitrary<bool>()) {
      twins.let_go(i, true);
    } else {
      twins.let_go(i, false);
      twins.kv.close(static_cast<ReqId>(i));
      twins.begin(i);
    }
    RC_ASSERT(twins.kv.free() == static_cast<Blk>(twins.naive.idle.size()));
  }
}

}  // namespace
}  // namespace plimsoll::sched

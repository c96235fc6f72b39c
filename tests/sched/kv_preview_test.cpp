// SPDX-License-Identifier: Apache-2.0
// The blocks that a decision has already requested affect what its next request finds.
#include "sched/kv_preview.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <vector>

namespace plimsoll::sched {
namespace {

constexpr std::array<std::uint64_t, 2> kPrompt = {11, 12};  // two full blocks of 4 tokens

// A pool of six blocks: four fresh ones, and behind them the prompt's two idle blocks at the end of the queue.
KvLedger ledger_with_idle_prompt() {
  KvLedger kv({.blocks = 6, .block_tokens = 4, .prefix_caching = true});
  kv.open(0, kPrompt);
  kv.grow(0, 8);
  kv.publish(0, 8);
  kv.release(0, 0);
  kv.close(0);
  for (ReqId id = 1; id <= 3; ++id) kv.open(id, kPrompt);
  return kv;
}

TEST(KvPreview, TwoRequestsOfOneDecisionShareAPrefix) {
  const KvLedger kv = ledger_with_idle_prompt();
  KvPreview preview(kv);
  EXPECT_EQ(preview.prefix_hit(1, 100).idle_blocks, 2);
  preview.attach_prefix(1, 8);
  EXPECT_EQ(preview.free(), 4);
  EXPECT_EQ(preview.prefix_hit(2, 100).tokens, 8);
  EXPECT_EQ(preview.prefix_hit(2, 100).idle_blocks, 0);
  preview.attach_prefix(2, 8);
  EXPECT_EQ(preview.free(), 4);
}

// Idle blocks are freed tail first, so the last block of the prefix is reused first.
TEST(KvPreview, BlocksTakenMeanwhileAreNoHitAnyMore) {
  const KvLedger kv = ledger_with_idle_prompt();
  KvPreview preview(kv);
  preview.take(4);
  EXPECT_EQ(preview.prefix_hit(1, 100).tokens, 8);
  preview.take(1);
  EXPECT_EQ(preview.prefix_hit(1, 100).tokens, 4);
  preview.take(1);
  EXPECT_EQ(preview.prefix_hit(1, 100).tokens, 0);
  EXPECT_EQ(preview.free(), 0);
}

TEST(KvPreview, SharedBlocksAreFreeWhenTheLastHolderGoes) {
  KvLedger kv = ledger_with_idle_prompt();
  kv.attach_prefix(1, 8);
  kv.grow(1, 12);
  kv.attach_prefix(2, 8);
  KvPreview preview(kv);
  EXPECT_EQ(preview.free(), 3);
  preview.release(2);
  EXPECT_EQ(preview.free(), 3);  // the other request still holds both
  preview.release(1);
  EXPECT_EQ(preview.free(), 6);
}

// One decision admits six requests whose prompts branch off each other, after others have come and gone. For each, the
// preview must find what the ledger finds when the decision is applied.
RC_GTEST_PROP(KvPreviewProperty, FindsWhatTheLedgerFindsLater, ()) {
  KvLedger kv({.blocks = 30, .block_tokens = 1, .prefix_caching = true});
  constexpr ReqId kPast = 8, kNow = 6;
  const auto prompt = [] {
    std::vector<std::uint64_t> hashes(*rc::gen::inRange<std::size_t>(0, 8));
    std::uint64_t path = 1;  // in base 3, so that the number identifies all branches taken
    for (std::uint64_t& hash : hashes) hash = path = 3 * path + *rc::gen::inRange<std::uint64_t>(0, 2);
    return hashes;
  };
  const auto tokens_of = [](const PrefixHit& hit) { return std::pair(hit.tokens, hit.idle_blocks); };
  for (ReqId id = 0; id < kPast; ++id) {
    kv.open(id, prompt());
    const PrefixHit hit = kv.prefix_hit(id, 100);
    const auto length = hit.tokens + *rc::gen::inRange(0, 5);
    if (kv.free() < hit.idle_blocks + length - hit.tokens) continue;
    if (hit.tokens > 0) kv.attach_prefix(id, hit.tokens);
    kv.grow(id, length);
    kv.publish(id, length);
    if (*rc::gen::arbitrary<bool>()) kv.release(id, *rc::gen::arbitrary<bool>() ? length : 0);
  }
  for (ReqId id = kPast; id < kPast + kNow; ++id) kv.open(id, prompt());
  KvPreview preview(kv);
  struct Step {
    ReqId id;
    PrefixHit hit;
    Tok length;
    Blk free;
  };
  std::vector<Step> steps;
  for (ReqId id = 0; id < kPast + kNow; ++id) {
    if (id < kPast && kv.held(id) > 0) continue;
    const PrefixHit hit = preview.prefix_hit(id, 100);
    const Tok length = hit.tokens + *rc::gen::inRange(0, 6);
    if (preview.free() < hit.idle_blocks + length - hit.tokens) continue;
    if (hit.tokens > 0) preview.attach_prefix(id, hit.tokens);
    preview.take(length - hit.tokens);
    steps.push_back({id, hit, length, preview.free()});
  }
  for (const Step& step : steps) {
    RC_ASSERT(tokens_of(kv.prefix_hit(step.id, 100)) == tokens_of(step.hit));
    if (step.hit.tokens > 0) kv.attach_prefix(step.id, step.hit.tokens);
    kv.grow(step.id, step.length);
    RC_ASSERT(kv.free() == step.free);
  }
}

TEST(KvPreview, WithoutCachingItOnlyCounts) {
  KvLedger kv({.blocks = 6, .block_tokens = 4, .prefix_caching = false});
  kv.open(0, {});
  kv.grow(0, 8);
  KvPreview preview(kv);
  EXPECT_EQ(preview.prefix_hit(0, 100).tokens, 0);
  preview.take(3);
  EXPECT_EQ(preview.free(), 1);
  preview.release(0);
  EXPECT_EQ(preview.free(), 3);
}

}  // namespace
}  // namespace plimsoll::sched

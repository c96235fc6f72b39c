// SPDX-License-Identifier: Apache-2.0
// What a decision has asked for so far decides what the next request of the same decision finds.
#include "sched/kv_preview.h"

#include <gtest/gtest.h>

#include <array>

namespace plimsoll::sched {
namespace {

constexpr std::array<std::uint64_t, 2> kPrompt = {11, 12};  // two whole blocks of 4 tokens

// A pool of six blocks; the prompt's two stand idle at the end of the queue, four fresh ones before them.
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

// Idle blocks are freed tail first, so that the prefix's last block goes first.
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
  EXPECT_EQ(preview.free(), 3);  // the other still holds both
  preview.release(1);
  EXPECT_EQ(preview.free(), 6);
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

// SPDX-License-Identifier: Apache-2.0
// The order in which blocks are handed out. step_builder_test.cpp tests that blocks have the content that the ledger
// assumes.
#include "exec/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace plimsoll::exec {
namespace {

using Blocks = std::vector<std::int32_t>;

Blocks table(const BlockPool& pool, ReqId id) {
  const auto blocks = pool.table(id);
  return {blocks.begin(), blocks.end()};
}

Blocks run_one(BlockPool& pool, ReqId id, Tok tokens, std::span<const std::uint64_t> hashes = {}) {
  pool.open(id, hashes);
  pool.attach_prefix(id, 0);
  pool.cover(id, tokens);
  pool.publish(id, tokens);
  Blocks blocks = table(pool, id);
  pool.release(id, 0);
  pool.close(id);
  return blocks;
}

// Requests of three blocks that went through all 1000 blocks of a cache would touch all its memory.
TEST(BlockPool, requests_without_hashes_use_the_same_few_blocks_of_a_cache) {
  BlockPool pool(1000, 16, true);
  std::int32_t highest = 0;
  for (ReqId id = 0; id < 2000; ++id) {
    for (const std::int32_t block : run_one(pool, id % 3, 48)) highest = std::max(highest, block);
  }
  EXPECT_EQ(highest, 2);
  EXPECT_EQ(pool.free(), 1000);
}

TEST(BlockPool, content_is_reused_in_the_order_in_which_it_was_given_back) {
  BlockPool pool(4, 16, true);
  const std::vector<std::uint64_t> first{1}, second{2};
  EXPECT_EQ(run_one(pool, 0, 16, first), (Blocks{0}));
  EXPECT_EQ(run_one(pool, 1, 16, second), (Blocks{1}));
  pool.open(2, {});
  pool.cover(2, 48);  // takes the two blocks without content, then the block with the oldest content
  EXPECT_EQ(table(pool, 2), (Blocks{2, 3, 0}));
  pool.open(3, second);
  pool.attach_prefix(3, 16);  // its block is still there
  EXPECT_EQ(table(pool, 3), (Blocks{1}));
  EXPECT_EQ(pool.free(), 0);
}

TEST(BlockPool, a_preempted_request_finds_its_own_blocks_and_a_later_one_does_not) {
  BlockPool pool(6, 16, true);
  pool.open(0, {});
  pool.cover(0, 64);
  EXPECT_EQ(table(pool, 0), (Blocks{0, 1, 2, 3}));
  pool.release(0, 50);        // three full blocks may be reused
  pool.attach_prefix(0, 32);  // two of them are reused
  EXPECT_EQ(table(pool, 0), (Blocks{0, 1}));
  EXPECT_EQ(pool.free(), 4);
  pool.cover(0, 96);  // takes all remaining blocks; their content is dropped
  EXPECT_EQ(pool.free(), 0);
  Blocks all = table(pool, 0);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Blocks{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
#include "sched/kv_occupancy.h"

#include <gtest/gtest.h>

namespace plimsoll::sched {
namespace {

// Returns `steps` steps of `seconds` each.
StepsTime lasting(double seconds, std::int64_t steps = 1) {
  const auto n = static_cast<double>(steps);
  StepsTime time;
  time.steps = steps;
  time.first = seconds;
  time.total = n * seconds;
  time.moment1 = seconds * n * (n - 1) / 2;
  time.moment2 = seconds * n * (n - 1) * (2 * n - 1) / 6;
  return time;
}

KvLedger ledger() { return KvLedger({.blocks = 100, .block_tokens = 16, .prefix_caching = false}); }

// 96 tokens are reserved and 60 will be stored in the end: 36 are lost to the reservation. A step counts the tokens
// stored before it.
TEST(KvOccupancy, SplitsAReservationIntoUsedUnusedAndLost) {
  KvLedger kv = ledger();
  kv.open(0, {});
  kv.reserve(0, 96);
  KvOccupancy occupancy;
  KvShare share;
  occupancy.reserve(share, 96, 60, 0);
  occupancy.add_steps(lasting(2), {.prefills = 1, .prefill_tokens = 10}, kv, false);
  occupancy.store_prefill(share, 10);
  occupancy.add_steps(lasting(1), {}, kv, false);
  const Integrals& sum = occupancy.integrals();
  EXPECT_EQ(sum.busy_s, 3);
  EXPECT_EQ(sum.batch, 2);
  EXPECT_EQ(sum.used_tokens, 10);
  EXPECT_EQ(sum.held_tokens, 96 * 3);
  EXPECT_EQ(sum.internal, (96 - 60) * 3);
  EXPECT_EQ(sum.reserved_unused, 60 * 2 + 50);
  EXPECT_EQ(sum.last_block, 0);
  EXPECT_EQ(occupancy.peak_used(), 10);
}

// Blocks cover 20 tokens of a prompt, 5 of which are computed: 15 are held for later; the last block has a rest.
TEST(KvOccupancy, CountsWhatIsHeldForTokensToCome) {
  KvLedger kv = ledger();
  kv.open(0, {});
  kv.grow(0, 20);
  KvOccupancy occupancy;
  KvShare share;
  occupancy.grow(share, 20, 0);
  occupancy.store_prefill(share, 5);
  occupancy.add_steps(lasting(1), {}, kv, false);
  EXPECT_EQ(occupancy.integrals().reserved_unused, 15);
  EXPECT_EQ(occupancy.integrals().last_block, 32 - 20);
  kv.release(0, 0);
  occupancy.forget(share, 5);
  const Integrals before = occupancy.integrals();
  occupancy.add_steps(lasting(1), {}, kv, true);
  const Integrals after = occupancy.integrals() - before;
  EXPECT_EQ(after.used_tokens, 0);
  EXPECT_EQ(after.reserved_unused, 0);
  EXPECT_EQ(after.external, 100 * 16) << "all that is free, where it is too short for the queue";
}

// Two members grow beyond the edge of a block, in seven steps at once and one by one.
TEST(KvOccupancy, ALeapEqualsItsSteps) {
  const auto run = [](std::int64_t leap) {
    KvLedger kv = ledger();
    KvOccupancy occupancy;
    KvShare shares[2];
    for (ReqId id = 0; id < 2; ++id) {
      kv.open(id, {});
      kv.grow(id, 14 + id);
      occupancy.restore(static_cast<Tok>(14 + id));
      kv.join_group(id, static_cast<Tok>(14 + id));
      occupancy.join_group(shares[id]);
    }
    for (std::int64_t done = 0; done < 7; done += leap) {
      occupancy.add_steps(lasting(0.5, leap), {.members = 2}, kv, false);
      occupancy.store_group(leap, 2);
      kv.advance_group(leap);
    }
    return occupancy;
  };
  const KvOccupancy leap = run(7), steps = run(1);
  // 29, 31, … 41 tokens during the seven steps of half a second each.
  EXPECT_NEAR(steps.integrals().used_tokens, 0.5 * 7 * 35, 1e-9);
  EXPECT_NEAR(leap.integrals().used_tokens, steps.integrals().used_tokens, 1e-9);
  EXPECT_NEAR(leap.integrals().held_tokens, steps.integrals().held_tokens, 1e-9);
  EXPECT_NEAR(leap.integrals().last_block, steps.integrals().last_block, 1e-9);
  EXPECT_EQ(leap.peak_used(), steps.peak_used());
}

}  // namespace
}  // namespace plimsoll::sched

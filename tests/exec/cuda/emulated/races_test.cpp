// SPDX-License-Identifier: Apache-2.0
// The emulation finds missing barriers and fences. This file is compiled as kernels are. Each pair of tests differs in
// the one barrier that matters.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

#include "exec/cuda/ptx.cuh"
#include "tests/exec/cuda/emulation/grid.h"

#if defined(__SANITIZE_THREAD__)

namespace plimsoll::exec::cuda {
namespace {

using cuda_emulation::run_grid;

// Every thread writes a number, and reads that of the next thread of its warp or block.
void read_neighbour(unsigned threads, void (*barrier)()) {
  std::vector<unsigned> read(threads);
  run_grid({1, 1, 1}, {threads, 1, 1}, threads * 4, [&] {
    auto* shared = reinterpret_cast<unsigned*>(dynamic_shared());
    shared[threadIdx.x] = threadIdx.x;
    barrier();
    read[threadIdx.x] = shared[(threadIdx.x + 1) % threads];
  });
  EXPECT_EQ(read[5], 6U);
}

void meet_without_memory() { (void)__shfl_sync(~0U, 1, 0); }

TEST(Races, a_barrier_of_the_warp_orders_its_lanes) { read_neighbour(32, __syncwarp); }
TEST(Races, a_barrier_of_the_block_orders_all) { read_neighbour(96, __syncthreads); }

TEST(RacesDeathTest, without_a_barrier_the_neighbour_is_a_race) {
  EXPECT_DEATH(read_neighbour(32, [] {}), "race in shared memory");
}
TEST(RacesDeathTest, a_shuffle_orders_no_memory) {
  EXPECT_DEATH(read_neighbour(32, meet_without_memory), "race in shared memory");
}
TEST(RacesDeathTest, a_barrier_of_the_warp_does_not_order_other_warps) {
  EXPECT_DEATH(read_neighbour(96, __syncwarp), "race in shared memory");
}

// A stage is refilled: the copy may arrive from the moment it is started.
void refill(bool barrier) {
  alignas(16) static const unsigned source[4] = {1, 2, 3, 4};
  run_grid({1, 1, 1}, {32, 1, 1}, 16, [&] {
    auto* shared = reinterpret_cast<unsigned*>(dynamic_shared());
    if (threadIdx.x == 0) shared[0] = 7;
    __syncwarp();
    if (shared[0] != 7) std::abort();
    if (barrier) __syncwarp();
    if (threadIdx.x == 31) cp_async_16(shared, source, true);
    cp_async_commit();
    cp_async_wait<0>();
  });
}
TEST(Races, memory_is_refilled_after_a_barrier) { refill(true); }
TEST(RacesDeathTest, memory_is_refilled_while_others_read_it) { EXPECT_DEATH(refill(false), "race in shared memory"); }

// A copy that has arrived for its own thread has not arrived for the others.
TEST(RacesDeathTest, waiting_for_a_copy_tells_no_other_thread) {
  alignas(16) static const unsigned source[4] = {1, 2, 3, 4};
  const auto broken = [] {
    run_grid({1, 1, 1}, {32, 1, 1}, 16, [&] {
      auto* shared = reinterpret_cast<unsigned*>(dynamic_shared());
      if (threadIdx.x == 0) cp_async_16(shared, source, true);
      cp_async_commit();
      cp_async_wait<0>();
      if (shared[1] == 0) std::abort();
    });
  };
  EXPECT_DEATH(broken(), "race in shared memory");
}

// Blocks add up what all have written, in the block that arrives last.
void add_up(bool fence_before, bool fence_after) {
  constexpr unsigned kBlocks = 3, kThreads = 64;
  std::vector<unsigned> parts(kBlocks * kThreads), sums(kThreads);
  unsigned arrived = 0;
  run_grid({kBlocks, 1, 1}, {kThreads, 1, 1}, 4, [&] {
    auto* last = reinterpret_cast<unsigned*>(dynamic_shared());
    parts[blockIdx.x * kThreads + threadIdx.x] = threadIdx.x;
    if (fence_before) __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      *last = atomicInc(&arrived, kBlocks - 1) == kBlocks - 1 ? 1U : 0U;
      if (fence_after) __threadfence();
    }
    __syncthreads();
    if (*last == 0) return;
    for (unsigned block = 0; block < kBlocks; ++block)
      sums[threadIdx.x] += parts[block * kThreads + (threadIdx.x + 1) % kThreads];
  });
  EXPECT_EQ(sums[5], 3 * 6U);
  EXPECT_EQ(arrived, 0U);
}
TEST(Races, fences_around_an_atomic_order_blocks) { add_up(true, true); }
TEST(RacesDeathTest, no_fence_before_the_atomic) { EXPECT_DEATH(add_up(false, true), "race in device memory"); }
TEST(RacesDeathTest, no_fence_after_the_atomic) { EXPECT_DEATH(add_up(true, false), "race in device memory"); }

TEST(RacesDeathTest, two_blocks_write_one_number) {
  unsigned number = 0;
  const auto broken = [&] { run_grid({2, 1, 1}, {1, 1, 1}, 0, [&] { number = blockIdx.x; }); };
  EXPECT_DEATH(broken(), "two writes");
}

// One thread of a kernel that is launched before the previous one has ended.
void start_early(void (*thread)()) {
  run_grid(
      {1, 1, 1}, {1, 1, 1}, 0, [&]() __attribute__((no_sanitize_thread)) {
        cuda_emulation::races::start_early();
        thread();
      });
}
TEST(Races, an_early_kernel_reads_constants_before_it_waits) {
  static unsigned constant[4] = {1, 2, 3, 4}, result = 0;
  start_early([] {
    const uint4 read = load_streaming(constant);
    wait_for_previous_kernel();
    let_next_kernel_start();
    result = read.w;
  });
  EXPECT_EQ(result, 4U);
}
TEST(RacesDeathTest, an_early_kernel_touches_memory_before_it_waits) {
  static unsigned number = 0;
  EXPECT_DEATH(start_early([] { number = 1; }), "writes device memory before it waits");
  constexpr auto kReads = [] {
    const volatile unsigned seen = number;
    wait_for_previous_kernel();
    static_cast<void>(seen);
  };
  EXPECT_DEATH(start_early(kReads), "reads device memory before it waits");
  EXPECT_DEATH(start_early([] { let_next_kernel_start(); }), "lets the next kernel start before it waits");
  EXPECT_DEATH(start_early([] {}), "ends before it waits");
}

TEST(RacesDeathTest, lanes_that_wait_for_different_things_are_a_fault) {
  const auto broken = [] {
    run_grid({1, 1, 1}, {32, 1, 1}, 0, [] {
      if (threadIdx.x == 3)
        __syncwarp();
      else
        meet_without_memory();
    });
  };
  EXPECT_DEATH(broken(), "different barriers");
}

}  // namespace
}  // namespace plimsoll::exec::cuda

#endif

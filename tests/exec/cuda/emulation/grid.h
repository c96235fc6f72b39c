// SPDX-License-Identifier: Apache-2.0
// CUDA's execution model on the CPU, so that kernels are tested without a GPU: a block's threads are fibers that run in
// turn until they wait for each other. It is slow but exact. A collective that not all threads reach is reported
// instead of hanging. Threads run in a different order in every block. Copies that a kernel does not wait for do not
// arrive. The sanitizers see every access. Races are found from the barriers alone (races.h). It cannot show speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace plimsoll::exec::cuda_emulation {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct ThreadState {
  Index thread, block, block_size, grid_size;
  unsigned lane = 0;
};
/// Returns the state of the running fiber.
[[nodiscard]] const ThreadState& thread();

/// Runs a kernel to its end, calling `body` once per thread. Aborts with a message on deadlock.
void run_grid(Index grid, Index block, std::size_t shared_bytes, const std::function<void()>& body);
/// Chooses other orders of the threads from the next launch on; PLIMSOLL_EMULATION_SEED states the first (default 1).
void set_seed(std::uint64_t of_schedules);
/// Returns the dynamic shared memory of the block, which is initially filled with NaN.
[[nodiscard]] void* dynamic_shared();

void block_barrier();
void warp_barrier();  // __syncwarp()
/// Every lane of the warp passes `bytes` bytes; all must pass the same number. Returns memory with lane i's bytes at [i
/// * stride], valid until the lane's next collective. Lanes meet here, but memory is not ordered.
constexpr std::size_t kLaneStride = 64;
[[nodiscard]] const std::byte* exchange(const void* own, std::size_t bytes);

/// cp.async: the copy happens when the thread waits for its group, or in half of the blocks when it commits the group.
/// A GPU may copy at any time between the two.
void copy_later(void* shared, const void* global, std::size_t bytes);
void commit_copies();
void wait_for_copies(unsigned groups_left);

}  // namespace plimsoll::exec::cuda_emulation

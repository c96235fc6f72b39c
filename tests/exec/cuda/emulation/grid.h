// SPDX-License-Identifier: Apache-2.0
// CUDA's execution model on the CPU, so that kernels are tested where there is no GPU: a block's threads are fibers
// that run in turn until they wait for each other. Slow and exact: a collective that not all threads reach is reported
// instead of hanging, threads run in a different order in every block, copies that a kernel does not wait for do not
// arrive, and the sanitizers see every access. What it cannot show: speed, and races of the memory model.
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
/// Of the fiber that runs.
[[nodiscard]] const ThreadState& thread();

/// Runs a kernel to its end: `body` once for every thread. Aborts with a message on deadlock.
void run_grid(Index grid, Index block, std::size_t shared_bytes, const std::function<void()>& body);
/// Dynamic shared memory of the block, filled with NaN at its start.
[[nodiscard]] void* dynamic_shared();

void block_barrier();
void warp_barrier();
/// Every lane of the warp gives `bytes`; returns where lane i's stand at [i * stride]. Valid until the lane's next
/// collective. What `bytes` are must be the same in all lanes.
constexpr std::size_t kLaneStride = 64;
[[nodiscard]] const std::byte* exchange(const void* own, std::size_t bytes);

/// cp.async: the copy is made when the thread waits for its group.
void copy_later(void* shared, const void* global, std::size_t bytes);
void commit_copies();
void wait_for_copies(unsigned groups_left);

}  // namespace plimsoll::exec::cuda_emulation

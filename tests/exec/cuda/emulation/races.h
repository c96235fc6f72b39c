// SPDX-License-Identifier: Apache-2.0
// Finds races between the threads of an emulated kernel. Kernels are compiled with -fsanitize=thread, and races.cpp
// answers the compiler's calls at every access in place of the sanitizer's own runtime. CUDA's rules decide what orders
// two accesses: program order, a barrier of the block, __syncwarp() within a warp, and between blocks a fence before
// an atomic operation that another block sees before a fence of its own. Shuffles and tensor-core instructions make
// lanes meet but order no memory. A race ends the program with both threads named, whatever the schedule was.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::exec::cuda_emulation::races {

/// Memory whose accesses are not watched: a thread's own stack and its bookkeeping.
struct Range {
  const void* begin = nullptr;
  std::size_t bytes = 0;
};

/// One host thread runs one grid at a time; its blocks are unordered although they run one after another.
void begin_grid();
void end_grid();
/// `shared` is the block's dynamic shared memory. `threads` is at most 1024.
void begin_block(std::uint32_t index, unsigned threads, Range shared);
/// From here on `thread` of the block runs.
void resume(unsigned thread, Range stack, Range bookkeeping);
/// All threads of the block, or all lanes of a warp, have met at a barrier that orders memory.
void block_met();
void warp_met(unsigned warp);

/// __threadfence() and __threadfence_system().
void fence();
/// An atomic operation on device memory, which itself races with nothing.
void atomic(const void* at);
/// The running thread begins a kernel that is launched early, as all kernels of exec/cuda/launch.cuh are. It is
/// reported if it accesses device memory before it waits for the previous grid, and so is a grid without any thread
/// that waits.
void start_early();
void wait_for_previous_grid();
/// Comes after the wait: kernels rely on at most one waiting grid.
void let_next_grid_start();
/// Copies what no kernel ever writes, which may be read before the wait.
void read_constant(const void* from, void* to, std::size_t bytes);

/// An access by the running thread. `code` is the instruction's address, for the report.
void access(const void* at, std::size_t bytes, bool writes, const void* code = nullptr);

}  // namespace plimsoll::exec::cuda_emulation::races

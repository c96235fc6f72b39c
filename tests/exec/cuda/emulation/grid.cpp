// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/cuda/emulation/grid.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace plimsoll::exec::cuda_emulation {

namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 256 * 1024;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "CUDA emulation: %s\n", what);
  std::abort();
}

// Threads wait until `generation` changes.
struct Barrier {
  unsigned arrived = 0, generation = 0;
};

struct Warp {
  Barrier barrier;
  unsigned lanes = 0;
  // Two mailboxes that alternate: a lane may post for the next collective while another still reads the current one.
  std::byte mail[2][kWarp * kLaneStride];
};

struct PendingCopy {
  void* to;
  const void* from;
  std::size_t bytes;
};

struct Fiber {
  ThreadState state;
  Warp* warp = nullptr;
  const Barrier* waits_for = nullptr;
  unsigned waits_at = 0;
  unsigned collectives = 0;
  bool started = false, done = false;
  std::vector<PendingCopy> open;
  std::deque<std::vector<PendingCopy>> groups;
  ucontext_t entry;
  void* jump[5];
  std::unique_ptr<char[]> stack;
  void* fake_stack = nullptr;
};

struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<std::uint64_t> shared;
  Barrier barrier;
  unsigned live = 0;
  const std::function<void()>* body = nullptr;
  Fiber* running = nullptr;
  ucontext_t scheduler_entry;
  void* scheduler_jump[5];
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
};

thread_local Block* current = nullptr;
thread_local std::vector<std::unique_ptr<char[]>> spare_stacks;

// The address sanitizer must be told of every change of stacks.
void leave(void** fake_stack, const void* stack, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#else
  static_cast<void>(fake_stack), static_cast<void>(stack), static_cast<void>(bytes);
#endif
}
void arrive(void* fake_stack, const void** old_stack, std::size_t* old_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, old_stack, old_bytes);
#else
  static_cast<void>(fake_stack), static_cast<void>(old_stack), static_cast<void>(old_bytes);
#endif
}

// Unlike swapcontext(), the builtins make no system call. They must not both occur in one function.
__attribute__((noipa)) void leap(void** to) { __builtin_longjmp(to, 1); }
__attribute__((noipa)) void jump(void** from, void** to) {
  if (__builtin_setjmp(from) == 0) leap(to);
}

void to_scheduler(bool for_good) {
  Block& block = *current;
  Fiber& fiber = *block.running;
  leave(for_good ? nullptr : &fiber.fake_stack, block.scheduler_stack, block.scheduler_stack_bytes);
  jump(fiber.jump, block.scheduler_jump);
  arrive(fiber.fake_stack, nullptr, nullptr);
}

void release(Barrier& barrier) {
  barrier.arrived = 0;
  ++barrier.generation;
}

void fiber_main() {
  Block& block = *current;
  Fiber& fiber = *block.running;
  arrive(nullptr, &block.scheduler_stack, &block.scheduler_stack_bytes);
  (*block.body)();
  fiber.done = true;
  --block.live;
  if (block.live > 0 && block.barrier.arrived == block.live) release(block.barrier);  // exited threads count as arrived
  to_scheduler(true);
}

__attribute__((noipa)) void enter(Block& block, Fiber& fiber) {
  if (__builtin_setjmp(block.scheduler_jump) != 0) return;
  if (fiber.started) leap(fiber.jump);
  fiber.started = true;
  setcontext(&fiber.entry);
}

void resume(Block& block, Fiber& fiber) {
  block.running = &fiber;
  leave(&block.scheduler_fake_stack, fiber.stack.get(), kStackBytes);
  enter(block, fiber);
  arrive(block.scheduler_fake_stack, nullptr, nullptr);
}

void wait(Barrier& barrier, unsigned all) {
  Fiber& fiber = *current->running;
  if (++barrier.arrived == all) {
    release(barrier);
    return;
  }
  fiber.waits_for = &barrier;
  fiber.waits_at = barrier.generation;
  to_scheduler(false);
}

__attribute__((noipa)) void prepare(ucontext_t& entry, char* stack) {
  getcontext(&entry);
  entry.uc_stack.ss_sp = stack;
  entry.uc_stack.ss_size = kStackBytes;
  entry.uc_link = nullptr;
  makecontext(&entry, fiber_main, 0);
}

void make_fibers(Block& block, Index grid, Index size, Index at) {
  const unsigned threads = size.x * size.y * size.z;
  for (unsigned i = 0; i < threads; ++i) {
    auto fiber = std::make_unique<Fiber>();
    fiber->state = {{i % size.x, i / size.x % size.y, i / size.x / size.y}, at, size, grid, i % kWarp};
    if (i % kWarp == 0) block.warps.push_back(std::make_unique<Warp>());
    fiber->warp = block.warps.back().get();
    ++fiber->warp->lanes;
    if (spare_stacks.empty()) spare_stacks.push_back(std::make_unique_for_overwrite<char[]>(kStackBytes));
    fiber->stack = std::move(spare_stacks.back());
    spare_stacks.pop_back();
    prepare(fiber->entry, fiber->stack.get());
    block.fibers.push_back(std::move(fiber));
  }
  block.live = threads;
}

// Some blocks run their threads in reverse order, so that code which relies on an order fails.
void run_block(Block& block, bool backwards) {
  const std::size_t count = block.fibers.size();
  while (block.live > 0) {
    bool moved = false;
    for (std::size_t i = 0; i < count; ++i) {
      Fiber& fiber = *block.fibers[backwards ? count - 1 - i : i];
      if (fiber.done || (fiber.waits_for != nullptr && fiber.waits_for->generation == fiber.waits_at)) continue;
      fiber.waits_for = nullptr;
      resume(block, fiber);
      moved = true;
    }
    if (!moved) fail("deadlock: not all threads of a block or warp reach a barrier or collective");
  }
}

}  // namespace

const ThreadState& thread() { return current->running->state; }

void run_grid(Index grid, Index size, std::size_t shared_bytes, const std::function<void()>& body) {
  if (current != nullptr) fail("a kernel cannot start a kernel");
  const unsigned threads = size.x * size.y * size.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0)
    fail("a launch of no or too many threads");
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        Block block;
        block.body = &body;
        block.shared.assign((shared_bytes + 7) / 8, ~std::uint64_t{0});
        make_fibers(block, grid, size, {x, y, z});
        current = &block;
        run_block(block, (x + y + z) % 2 == 1);
        current = nullptr;
        for (auto& fiber : block.fibers) spare_stacks.push_back(std::move(fiber->stack));
      }
    }
  }
}

void* dynamic_shared() { return current->shared.data(); }

void block_barrier() { wait(current->barrier, current->live); }

void warp_barrier() {
  Warp& warp = *current->running->warp;
  wait(warp.barrier, warp.lanes);
}

const std::byte* exchange(const void* own, std::size_t bytes) {
  if (bytes > kLaneStride) fail("a lane gives too much");
  Fiber& fiber = *current->running;
  std::byte* mail = fiber.warp->mail[fiber.collectives++ % 2];
  std::memcpy(mail + fiber.state.lane * kLaneStride, own, bytes);
  warp_barrier();
  return mail;
}

void copy_later(void* shared, const void* global, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0 || reinterpret_cast<std::uintptr_t>(global) % 16 != 0)
    fail("an asynchronous copy is not aligned to 16 bytes");
  current->running->open.push_back({shared, global, bytes});
}

void commit_copies() {
  Fiber& fiber = *current->running;
  fiber.groups.push_back(std::move(fiber.open));
  fiber.open.clear();
}

void wait_for_copies(unsigned groups_left) {
  Fiber& fiber = *current->running;
  for (; fiber.groups.size() > groups_left; fiber.groups.pop_front()) {
    for (const PendingCopy& copy : fiber.groups.front()) {
      auto* to = static_cast<char*>(copy.to);
      std::memcpy(to, copy.from, copy.bytes);
      std::memset(to + copy.bytes, 0, 16 - copy.bytes);
    }
  }
}

}  // namespace plimsoll::exec::cuda_emulation

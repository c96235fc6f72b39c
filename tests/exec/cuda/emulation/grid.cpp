// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/cuda/emulation/grid.h"

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/exec/cuda/emulation/races.h"

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

// Threads wait for `generation` to change.
struct Barrier {
  unsigned arrived = 0, generation = 0;
};

// A meeting point of the lanes of a warp. All lanes must arrive for the same reason.
enum class Meeting { memory, exchange };

struct Warp {
  Barrier barrier;
  Meeting meeting = Meeting::memory;
  unsigned lanes = 0, number = 0;
  // Two alternating mailboxes: a lane may post for the next collective while others still read the current one.
  std::byte mail[2][kWarp * kLaneStride];
};

struct PendingCopy {
  void* to;
  const void* from;
  std::size_t bytes;
};

// A thread of a block. Its fiber is used again for a thread of a later block: making one takes longer than many kernels
// run.
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
  bool copies_early = false;  // asynchronous copies happen when they are committed, not when they are waited for
  const std::function<void()>* body = nullptr;
  Fiber* running = nullptr;
  void* scheduler_jump[5];
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
};

thread_local Block* current = nullptr;
thread_local std::vector<std::unique_ptr<Fiber>> spare_fibers;

// The address sanitizer must be notified of every change of stacks.
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

// Unlike swapcontext(), these builtins make no system call. Both must not occur in the same function.
__attribute__((noipa)) void leap(void** to) { __builtin_longjmp(to, 1); }
__attribute__((noipa)) void jump(void** from, void** to) {
  if (__builtin_setjmp(from) == 0) leap(to);
}

void to_scheduler() {
  Fiber& fiber = *current->running;
  leave(&fiber.fake_stack, current->scheduler_stack, current->scheduler_stack_bytes);
  jump(fiber.jump, current->scheduler_jump);
  arrive(fiber.fake_stack, &current->scheduler_stack, &current->scheduler_stack_bytes);  // perhaps of another block
}

void release(Barrier& barrier) {
  barrier.arrived = 0;
  ++barrier.generation;
}

void release_block(Block& block) {
  races::block_met();
  release(block.barrier);
}

void fiber_main() {
  arrive(nullptr, &current->scheduler_stack, &current->scheduler_stack_bytes);
  for (;;) {
    Block& block = *current;
    (*block.body)();
    block.running->done = true;
    --block.live;
    if (block.live > 0 && block.barrier.arrived == block.live) release_block(block);  // exited threads count as arrived
    to_scheduler();
  }
}

__attribute__((noipa)) void enter(Block& block, Fiber& fiber) {
  if (__builtin_setjmp(block.scheduler_jump) != 0) return;
  if (fiber.started) leap(fiber.jump);
  fiber.started = true;
  setcontext(&fiber.entry);
}

void resume(Block& block, Fiber& fiber, unsigned thread) {
  block.running = &fiber;
  races::resume(thread, {fiber.stack.get(), kStackBytes}, {&fiber, sizeof fiber});
  leave(&block.scheduler_fake_stack, fiber.stack.get(), kStackBytes);
  enter(block, fiber);
  arrive(block.scheduler_fake_stack, nullptr, nullptr);
}

void wait(const Barrier& barrier) {
  Fiber& fiber = *current->running;
  fiber.waits_for = &barrier;
  fiber.waits_at = barrier.generation;
  to_scheduler();
}

void meet(Meeting meeting) {
  Warp& warp = *current->running->warp;
  if (warp.barrier.arrived == 0) warp.meeting = meeting;
  if (warp.meeting != meeting) fail("lanes of a warp wait at different barriers or collectives");
  if (++warp.barrier.arrived < warp.lanes) return wait(warp.barrier);
  if (meeting == Meeting::memory) races::warp_met(warp.number);
  release(warp.barrier);
}

__attribute__((noipa)) std::unique_ptr<Fiber> make_fiber() {
  auto fiber = std::make_unique<Fiber>();
  fiber->stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  getcontext(&fiber->entry);
  fiber->entry.uc_stack.ss_sp = fiber->stack.get();
  fiber->entry.uc_stack.ss_size = kStackBytes;
  fiber->entry.uc_link = nullptr;
  makecontext(&fiber->entry, fiber_main, 0);
  return fiber;
}

void take_fibers(Block& block, Index grid, Index size, Index at) {
  const unsigned threads = size.x * size.y * size.z;
  for (unsigned i = 0; i < threads; ++i) {
    if (spare_fibers.empty()) spare_fibers.push_back(make_fiber());
    auto fiber = std::move(spare_fibers.back());
    spare_fibers.pop_back();
    fiber->done = false;
    fiber->waits_for = nullptr;
    fiber->collectives = 0;
    fiber->open.clear();
    fiber->groups.clear();
    fiber->state = {{i % size.x, i / size.x % size.y, i / size.x / size.y}, at, size, grid, i % kWarp};
    if (i % kWarp == 0) {
      block.warps.push_back(std::make_unique<Warp>());
      block.warps.back()->number = i / kWarp;
    }
    fiber->warp = block.warps.back().get();
    ++fiber->warp->lanes;
    block.fibers.push_back(std::move(fiber));
  }
  block.live = threads;
}

std::uint64_t first_seed() {
  const char* text = std::getenv("PLIMSOLL_EMULATION_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}
std::atomic<std::uint64_t> seed = first_seed();

// The order in which a block's threads run: forwards, backwards, or warps at random with their lanes at random. Code
// that relies on an order fails in one of them.
std::vector<unsigned> order_of_threads(unsigned threads, Index at) {
  std::vector<unsigned> order(threads);
  std::iota(order.begin(), order.end(), 0U);
  const unsigned parity = (at.x + at.y + at.z) % 2;
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15U + at.x + 1000003U * at.y + 1000000007U * at.z);
  if (parity == 1) std::reverse(order.begin(), order.end());
  if (random() % 2 == 0) return order;
  for (unsigned begin = 0; begin < threads; begin += kWarp)
    std::shuffle(order.begin() + begin, order.begin() + std::min(begin + kWarp, threads), random);
  std::vector<unsigned> warps((threads + kWarp - 1) / kWarp), mixed;
  std::iota(warps.begin(), warps.end(), 0U);
  std::shuffle(warps.begin(), warps.end(), random);
  for (const unsigned warp : warps) {
    const unsigned begin = warp * kWarp, end = std::min(begin + kWarp, threads);
    mixed.insert(mixed.end(), order.begin() + begin, order.begin() + end);
  }
  return mixed;
}

// Runs every thread to its next barrier, in the order of the block.
void run_block(Block& block, const std::vector<unsigned>& order) {
  while (block.live > 0) {
    bool moved = false;
    for (const unsigned i : order) {
      Fiber& fiber = *block.fibers[i];
      if (fiber.done || (fiber.waits_for != nullptr && fiber.waits_for->generation == fiber.waits_at)) continue;
      fiber.waits_for = nullptr;
      resume(block, fiber, i);
      moved = true;
    }
    if (!moved) fail("deadlock: not all threads of a block or warp reach a barrier or collective");
  }
}

void copy_now(std::vector<PendingCopy>& copies) {
  for (const PendingCopy& copy : copies) {
    auto* to = static_cast<char*>(copy.to);
    races::access(copy.from, copy.bytes, false);
    races::access(to, 16, true);
    std::memcpy(to, copy.from, copy.bytes);
    std::memset(to + copy.bytes, 0, 16 - copy.bytes);
  }
  copies.clear();
}

}  // namespace

const ThreadState& thread() { return current->running->state; }

void run_grid(Index grid, Index size, std::size_t shared_bytes, const std::function<void()>& body) {
  if (current != nullptr) fail("a kernel cannot start a kernel");
  const unsigned threads = size.x * size.y * size.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0)
    fail("a launch of no or too many threads");
  races::begin_grid();
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        Block block;
        block.body = &body;
        block.shared.assign((shared_bytes + 7) / 8, ~std::uint64_t{0});
        take_fibers(block, grid, size, {x, y, z});
        block.copies_early = ((x + y + z) / 2 + seed) % 2 == 0;
        current = &block;
        races::begin_block((z * grid.y + y) * grid.x + x, threads, {block.shared.data(), block.shared.size() * 8});
        run_block(block, order_of_threads(threads, {x, y, z}));
        current = nullptr;
        for (auto& fiber : block.fibers) spare_fibers.push_back(std::move(fiber));
      }
    }
  }
  races::end_grid();
}

void set_seed(std::uint64_t of_schedules) { seed = of_schedules; }

void* dynamic_shared() { return current->shared.data(); }

void block_barrier() {
  Block& block = *current;
  if (++block.barrier.arrived < block.live) return wait(block.barrier);
  release_block(block);
}

void warp_barrier() { meet(Meeting::memory); }

const std::byte* exchange(const void* own, std::size_t bytes) {
  if (bytes > kLaneStride) fail("a lane gives too much");
  Fiber& fiber = *current->running;
  std::byte* mail = fiber.warp->mail[fiber.collectives++ % 2];
  std::memcpy(mail + fiber.state.lane * kLaneStride, own, bytes);
  meet(Meeting::exchange);
  return mail;
}

void copy_later(void* shared, const void* global, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0 || reinterpret_cast<std::uintptr_t>(global) % 16 != 0)
    fail("an asynchronous copy is not aligned to 16 bytes");
  races::access(shared, 16, true);  // it may arrive at once, or when it is waited for
  current->running->open.push_back({shared, global, bytes});
}

void commit_copies() {
  Fiber& fiber = *current->running;
  if (current->copies_early) copy_now(fiber.open);
  fiber.groups.push_back(std::move(fiber.open));
  fiber.open.clear();
}

void wait_for_copies(unsigned groups_left) {
  Fiber& fiber = *current->running;
  for (; fiber.groups.size() > groups_left; fiber.groups.pop_front()) copy_now(fiber.groups.front());
}

}  // namespace plimsoll::exec::cuda_emulation

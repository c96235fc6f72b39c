// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/cuda/emulation/races.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

extern "C" const char __executable_start;  // NOLINT: the linker's name

namespace plimsoll::exec::cuda_emulation::races {

namespace {

constexpr std::uint32_t kWarp = 32;
constexpr std::size_t kGranule = 2;  // bytes of a cell: the smallest number that kernels store side by side
constexpr std::size_t kPage = 4096;

// When and where an access took place: how many barriers of the block and of the warp its thread had passed.
struct Access {
  std::uint64_t grid = 0;  // of this process; 0: there was none
  std::uint32_t block = 0, block_barriers = 0, warp_barriers = 0, thread = 0;
};

// The last write, and the reads since that no barrier separates from each other.
struct Cell {
  Access write, read;
  bool lanes = false, warps = false, blocks = false;  // several of them read
};
using Page = std::array<Cell, kPage / kGranule>;

// The state that a block published by an atomic operation: for each thread, the number of barriers before its last
// fence.
struct Published {
  std::uint32_t block = 0, block_barriers = 0, own_fence = 0;
  std::vector<std::uint32_t> fences;
};
constexpr std::uint32_t kNoFence = ~std::uint32_t{0};

// The accesses of another block that are ordered before the running block's: after the barrier for all threads, and
// before it for the thread with the fence.
struct Known {
  Published published;
  std::uint32_t thread = 0, from_barrier = 0;
};

struct Detector {
  std::uint64_t grid = 0;
  bool running = false;
  bool is_early = false, any_waited = false;  // this grid must wait for the previous one; a thread has
  std::vector<bool> waited;                   // by thread
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages;
  struct Recent {
    std::uintptr_t number = 0;
    Page* page = nullptr;
  };
  std::array<Recent, 256> recent;  // pages by the lowest bits of their numbers: most accesses find theirs here

  std::uint32_t block = 0, block_barriers = 0, thread = 0;
  std::vector<std::uint32_t> warp_barriers, fences;  // by warp, by thread
  Range shared, statics, stack, bookkeeping;         // `statics`: the program's thread-local variables
  const void* code = nullptr;                        // of the access that is being checked
  std::map<const void*, std::vector<Published>> published;
  std::vector<std::vector<Published>> seen;  // by thread: atomics whose fence is still missing
  std::vector<Known> known;

  Page& page(std::uintptr_t number) {
    Recent& one = recent[number % recent.size()];
    if (one.number != number || one.page == nullptr) {
      auto& place = pages[number];
      if (place == nullptr) place = std::make_unique<Page>();
      one = {number, place.get()};
    }
    return *one.page;
  }

  [[nodiscard]] Access now() const { return {grid, block, block_barriers, warp_barriers[thread / kWarp], thread}; }

  [[nodiscard]] bool knows(const Access& a) const {
    for (const Known& k : known) {
      const Published& p = k.published;
      if (p.block != a.block || (k.thread != thread && block_barriers < k.from_barrier)) continue;
      const bool before_its_fence = p.own_fence != kNoFence && a.block_barriers < p.own_fence;
      const bool fenced_itself = a.block_barriers < p.block_barriers && p.fences[a.thread] != kNoFence &&
                                 p.fences[a.thread] >= a.block_barriers;
      if (before_its_fence || fenced_itself) return true;
    }
    return false;
  }

  // Returns whether the access `a` is ordered before what the running thread does now.
  [[nodiscard]] bool ordered(const Access& a) const {
    if (a.block != block) return knows(a);
    if (a.thread == thread || a.block_barriers < block_barriers) return true;
    return a.thread / kWarp == thread / kWarp && a.warp_barriers < warp_barriers[thread / kWarp];
  }
};

thread_local Detector detector;

// The memory of a block that has ended; its addresses may be reused.
void forget(const Range& range) {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.begin), end = begin + range.bytes;
  for (std::uintptr_t page = begin / kPage; page * kPage < end; ++page) {
    const auto found = detector.pages.find(page);
    if (found == detector.pages.end()) continue;
    for (std::uintptr_t at = std::max(begin, page * kPage); at < std::min(end, (page + 1) * kPage); at += kGranule)
      (*found->second)[at % kPage / kGranule] = {};
  }
}

bool lies_in(const Range& range, const void* at) {
  const auto offset = reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(range.begin);
  return offset < range.bytes;
}

// Returns where the program's thread-local variables lie, among them all `__shared__` ones: below the thread pointer.
Range thread_local_range() {
  std::size_t bytes = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* program, std::size_t, void* result) {
        for (int i = 0; i < program->dlpi_phnum; ++i) {
          const auto& part = program->dlpi_phdr[i];
          if (part.p_type == PT_TLS) *static_cast<std::size_t*>(result) = part.p_memsz + part.p_align;
        }
        return 1;  // the first one is the program itself
      },
      &bytes);
  return {static_cast<char*>(__builtin_thread_pointer()) - bytes, bytes};
}

bool is_shared(const Detector& d, const void* at) { return lies_in(d.shared, at) || lies_in(d.statics, at); }

[[noreturn]] void report(const char* what, const Access& before, bool many, const void* at) {
  const Detector& d = detector;
  std::fprintf(stderr,
               "CUDA emulation: race in %s memory: %s by thread %u of block %u%s, not ordered with thread %u of block "
               "%u (addr2line -e PROGRAM 0x%zx)\n",
               is_shared(d, at) ? "shared" : "device", what, before.thread, before.block, many ? " and others" : "",
               d.thread, d.block, static_cast<std::size_t>(static_cast<const char*>(d.code) - &__executable_start));
  std::abort();
}

[[noreturn]] void report_early(const char* what) {
  const Detector& d = detector;
  std::fprintf(stderr,
               "CUDA emulation: thread %u of block %u %s before it waits for the previous kernel (addr2line -e PROGRAM "
               "0x%zx)\n",
               d.thread, d.block, what,
               static_cast<std::size_t>(static_cast<const char*>(d.code) - &__executable_start));
  std::abort();
}

void note_read(const Detector& d, Cell& cell) {
  const Access now = d.now();
  if (cell.read.grid != d.grid || (!cell.blocks && !cell.warps && !cell.lanes && d.ordered(cell.read)) ||
      (cell.read.block == d.block && cell.read.block_barriers < d.block_barriers && !cell.blocks)) {
    cell.read = now;
    cell.lanes = cell.warps = cell.blocks = false;
  } else if (cell.read.block != d.block) {
    cell.blocks = true;
  } else if (cell.read.thread / kWarp != d.thread / kWarp) {
    cell.warps = true;
  } else {
    cell.lanes = cell.lanes || cell.read.thread != d.thread;
    cell.read.warp_barriers = now.warp_barriers;
  }
}

// Reads that are not ordered before the current write.
bool clashes(const Detector& d, const Cell& cell) {
  const Access& read = cell.read;
  if (read.grid != d.grid) return false;
  if (cell.blocks) return true;
  if (read.block != d.block) return !d.knows(read);
  if (read.block_barriers < d.block_barriers) return false;
  if (cell.warps || read.thread / kWarp != d.thread / kWarp) return true;
  return (cell.lanes || read.thread != d.thread) && read.warp_barriers >= d.warp_barriers[d.thread / kWarp];
}

}  // namespace

void begin_grid() {
  static std::uint64_t grids = 0;
  detector.grid = __atomic_add_fetch(&grids, 1, __ATOMIC_RELAXED);
  detector.published.clear();
  detector.is_early = detector.any_waited = false;
  detector.statics = thread_local_range();
  detector.running = true;
}
void end_grid() {
  if (detector.is_early && !detector.any_waited) report_early("ends");
  forget(detector.shared);
  detector.shared = {};
  detector.running = false;
}

void begin_block(std::uint32_t index, unsigned threads, Range shared) {
  Detector& d = detector;
  forget(d.shared);
  d.block = index;
  d.block_barriers = 0;
  d.warp_barriers.assign((threads + kWarp - 1) / kWarp, 0);
  d.fences.assign(threads, kNoFence);
  d.seen.assign(threads, {});
  d.known.clear();
  d.waited.assign(threads, true);
  d.shared = shared;
}

void resume(unsigned thread, Range stack, Range bookkeeping) {
  detector.thread = thread;
  detector.stack = stack;
  detector.bookkeeping = bookkeeping;
}

void block_met() { ++detector.block_barriers; }
void warp_met(unsigned warp) { ++detector.warp_barriers[warp]; }

void fence() {
  Detector& d = detector;
  if (!d.running) return;
  d.fences[d.thread] = d.block_barriers;
  for (Published& p : d.seen[d.thread]) d.known.push_back({std::move(p), d.thread, d.block_barriers + 1});
  d.seen[d.thread].clear();
}

void atomic(const void* at) {
  Detector& d = detector;
  if (!d.running) return;
  std::vector<Published>& all = d.published[at];
  for (const Published& p : all) {
    if (p.block != d.block) d.seen[d.thread].push_back(p);
  }
  if (d.fences[d.thread] != kNoFence) all.push_back({d.block, d.block_barriers, d.fences[d.thread], d.fences});
}

void start_early() {
  detector.is_early = true;
  detector.waited[detector.thread] = false;
}
void wait_for_previous_grid() {
  Detector& d = detector;
  d.waited[d.thread] = true;
  d.any_waited = true;
}
void let_next_grid_start() {
  if (!detector.waited[detector.thread]) report_early("lets the next kernel start");
}
void read_constant(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }

void access(const void* at, std::size_t bytes, bool writes, const void* code) {
  Detector& d = detector;
  d.code = code;
  if (!d.running || lies_in(d.stack, at) || lies_in(d.bookkeeping, at)) return;
  const bool shared = is_shared(d, at);
  if (!shared && !d.waited[d.thread]) report_early(writes ? "writes device memory" : "reads device memory");
  auto address = reinterpret_cast<std::uintptr_t>(at);
  for (const std::uintptr_t end = address + bytes; address < end; address += kGranule) {
    Cell& cell = d.page(address / kPage)[address % kPage / kGranule];
    if (shared && cell.write.block != d.block) cell.write.grid = 0;  // other blocks have shared memory of their own
    if (shared && cell.read.block != d.block) cell.read.grid = 0;
    if (cell.write.grid == d.grid && !d.ordered(cell.write))
      report(writes ? "two writes, the first" : "a read of a write", cell.write, false, at);
    if (!writes) {
      note_read(d, cell);
      continue;
    }
    if (clashes(d, cell)) report("a write over a read", cell.read, cell.lanes || cell.warps || cell.blocks, at);
    cell.write = d.now();
    cell.read.grid = 0;
  }
}

}  // namespace plimsoll::exec::cuda_emulation::races

// ---- what -fsanitize=thread calls ----------------------------------------------------------------------------------

namespace races = plimsoll::exec::cuda_emulation::races;

// NOLINTBEGIN: the names are the compiler's.
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
#define PLIMSOLL_ACCESS(bytes)                                                                                  \
  void __tsan_read##bytes(void* at) { races::access(at, bytes, false, __builtin_return_address(0)); }           \
  void __tsan_write##bytes(void* at) { races::access(at, bytes, true, __builtin_return_address(0)); }           \
  void __tsan_unaligned_read##bytes(void* at) { races::access(at, bytes, false, __builtin_return_address(0)); } \
  void __tsan_unaligned_write##bytes(void* at) { races::access(at, bytes, true, __builtin_return_address(0)); } \
  void __tsan_volatile_read##bytes(void* at) { races::access(at, bytes, false, __builtin_return_address(0)); }  \
  void __tsan_volatile_write##bytes(void* at) { races::access(at, bytes, true, __builtin_return_address(0)); }
PLIMSOLL_ACCESS(1)
PLIMSOLL_ACCESS(2)
PLIMSOLL_ACCESS(4)
PLIMSOLL_ACCESS(8)
PLIMSOLL_ACCESS(16)
#undef PLIMSOLL_ACCESS
void __tsan_read_range(void* at, std::size_t bytes) { races::access(at, bytes, false, __builtin_return_address(0)); }
void __tsan_write_range(void* at, std::size_t bytes) { races::access(at, bytes, true, __builtin_return_address(0)); }

// Atomic operations race with nothing; atomic() reports the order that they create between blocks. The strictest memory
// order is assumed.
#define PLIMSOLL_ATOMIC_ADD(bits, name, builtin)                                                                   \
  std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t* at, std::uint##bits##_t v, int) { \
    return builtin(at, v, __ATOMIC_SEQ_CST);                                                                       \
  }
#define PLIMSOLL_ATOMIC_COMPARE(bits, name)                                                                   \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile std::uint##bits##_t* at, std::uint##bits##_t* e, \
                                                    std::uint##bits##_t v, int, int) {                        \
    return __atomic_compare_exchange_n(at, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }
#define PLIMSOLL_ATOMIC(bits)                                                                      \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* at, int) {    \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* at, std::uint##bits##_t v, int) { \
    __atomic_store_n(at, v, __ATOMIC_SEQ_CST);                                                     \
  }                                                                                                \
  PLIMSOLL_ATOMIC_ADD(bits, exchange, __atomic_exchange_n)                                         \
  PLIMSOLL_ATOMIC_ADD(bits, fetch_add, __atomic_fetch_add)                                         \
  PLIMSOLL_ATOMIC_ADD(bits, fetch_sub, __atomic_fetch_sub)                                         \
  PLIMSOLL_ATOMIC_COMPARE(bits, strong)                                                            \
  PLIMSOLL_ATOMIC_COMPARE(bits, weak)
PLIMSOLL_ATOMIC(8)
PLIMSOLL_ATOMIC(32)
PLIMSOLL_ATOMIC(64)
}
// NOLINTEND

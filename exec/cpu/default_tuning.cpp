// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/default_tuning.h"

#include <unistd.h>

#include <algorithm>

#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

CacheSizes cache_sizes() {
  CacheSizes sizes;
  const auto read = [](int name, std::size_t& size) {
    if (const long bytes = ::sysconf(name); bytes > 0) size = static_cast<std::size_t>(bytes);
  };
  read(_SC_LEVEL1_DCACHE_SIZE, sizes.first);
  read(_SC_LEVEL2_CACHE_SIZE, sizes.second);
  read(_SC_LEVEL3_CACHE_SIZE, sizes.last);
  // Some virtual machines report a share of the last level that is smaller than the second.
  sizes.second = std::max(sizes.first, sizes.second);
  sizes.last = std::max(sizes.second, sizes.last);
  return sizes;
}

model::CpuTuning tuning_for(const CacheSizes& caches, int tile_rows) {
  constexpr std::int64_t kLeast = 128, kMost = 1024;  // beyond, loading and storing sums no longer counts
  model::CpuBlocking blocking;
  const std::int64_t row = static_cast<std::int64_t>(sizeof(float)) * blocking.tiles * tile_rows;
  std::int64_t depth = kMost;
  while (depth > kLeast && depth * row > static_cast<std::int64_t>(caches.second / 2)) depth /= 2;
  blocking.depth = depth;
  const model::CpuBlockings blockings{.one = blocking, .few = blocking, .many = blocking};
  model::CpuTuning tuning;
  tuning.floats = tuning.integers = blockings;
  return tuning;
}

model::CpuTuning default_tuning() { return tuning_for(cache_sizes(), select_kernels().rows); }

}  // namespace plimsoll::exec

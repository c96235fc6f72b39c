// SPDX-License-Identifier: Apache-2.0
// How products run on a machine that was not calibrated: by the sizes of its caches.
#pragma once

#include <cstddef>

#include "model/cpu_tuning.h"

namespace plimsoll::exec {

/// Bytes of one core's first- and second-level caches, and of the last level.
struct CacheSizes {
  std::size_t first = 32U << 10U, second = 512U << 10U, last = 32U << 20U;
};
/// Returns those of this machine. What the system does not say keeps its usual value; no level is smaller than the one
/// before it.
[[nodiscard]] CacheSizes cache_sizes();

/// Returns the tuning for these caches and tiles of `tile_rows` rows: the packed rows of a block fill at most half of
/// the second-level cache.
[[nodiscard]] model::CpuTuning tuning_for(const CacheSizes& caches, int tile_rows);
/// Returns the tuning for this machine's caches and kernels.
[[nodiscard]] model::CpuTuning default_tuning();

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Chooses how this machine runs products (model/cpu_tuning.h): times every choice on products of the size of a layer,
// whose weights come from memory as in a forward. The choices take turns, and the best time of each counts, because
// neighbours on the machine come and go. A choice replaces the default only if it is clearly faster. Decode attention
// is timed in the same way on sequences of unequal lengths. A machine that was not calibrated is tuned by the sizes of
// its caches.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <cstddef>
#include "exec/cpu/kernels.h"
#include "model/cpu_tuning.h"

namespace plimsoll::exec {

/// The best time of one kind of product.
struct TunedProduct {
  std::string name;     // "bf16, 16 rows"
  bool reads = false;   // its limit is the read bandwidth, else the multiply-add peak
  double fraction = 0;  // of that limit
  model::CpuBlocking chosen = {};
  double gain = 1;  // time with the default over time as chosen
};

struct TunedMachine {
  model::CpuTuning tuning;
  double parts_gain = 1;                        // time of decode attention with the default parts over time as chosen
  double read_bandwidth = 0, multiply_add = 0;  // bytes/s, flop/s: the best values meanwhile
  std::vector<TunedProduct> products;           // by the chosen instructions
};

struct TunerSettings {
  int cores = 1;
  double seconds = 0;                              // at least
  std::function<void()> check_in = {};             // called often; may throw
  std::size_t most_bytes = std::size_t{1} << 30U;  // of weights; fewer than two last-level caches measure these
};
[[nodiscard]] TunedMachine tune_machine(const KernelSet& kernels, const TunerSettings& settings);

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

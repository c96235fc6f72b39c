// SPDX-License-Identifier: Apache-2.0
// Chooses how this machine runs products (model/cpu_tuning.h): times every choice on products of the size of a layer,
// whose weights come from memory as in a forward. The choices take turns, and the best time of each counts, because
// neighbours on the machine come and go. A choice replaces the default only if it is clearly faster.
#pragma once

#include <functional>
#include <string>
#include <vector>

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
  double read_bandwidth = 0, multiply_add = 0;  // bytes/s, flop/s: the best values meanwhile
  std::vector<TunedProduct> products;           // by the chosen instructions
};

/// Tunes for at least `seconds` with `cores` threads. `check_in` is called often and may throw.
[[nodiscard]] TunedMachine tune_machine(const KernelSet& kernels, int cores, double seconds,
                                        const std::function<void()>& check_in = {});

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// Arrival times of open loops. Internal to load/.
#pragma once

#include <cstdint>
#include <optional>

#include "load/random.h"
#include "load/workload.h"

namespace plimsoll::load {

/// Throws InputError if the numbers do not describe a load.
void check_load(const LoadSpec& load);

/// Generates the arrival times of one load in order; closed loops and scripts have none.
class ArrivalClock {
 public:
  ArrivalClock(const LoadSpec& load, RandomStream stream) : load_(load), stream_(stream) {}
  /// Returns the next time since the start of the run, nondecreasing. Returns nullopt if the load has no further
  /// arrivals, or if the time exceeds int64 nanoseconds.
  [[nodiscard]] std::optional<Nanos> next();

 private:
  [[nodiscard]] std::optional<double> time_of_next();
  double renewal(double gap_s);
  double gamma_time(std::uint64_t index, double rate, double cv);

  LoadSpec load_;
  RandomStream stream_;
  std::uint64_t index_ = 0;
  double sum_s_ = 0, carry_s_ = 0;  // the sum of the gaps, and its accumulated rounding error
};

}  // namespace plimsoll::load

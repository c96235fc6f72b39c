// SPDX-License-Identifier: Apache-2.0
// A weighted histogram of positive times with bins of equal ratio: quantiles within 0.1 % of the true value, in fixed
// memory. Adding the same values in any order and grouping gives the same counts, so leaps and steps agree.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::sched {

class LogHistogram {
 public:
  /// Adds `weight` copies of `seconds`; zero and below count as 0.
  void add(double seconds, std::int64_t weight);
  void merge(const LogHistogram& other);
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] double mean() const;
  /// q in [0, 1]; the centre of the bin that holds the q-quantile. 0 when empty.
  [[nodiscard]] double quantile(double q) const;
  /// The bin of a value. A driver that adds a monotone run of values searches for the positions where the bin changes,
  /// instead of adding each value.
  [[nodiscard]] static std::int32_t bin_of(double seconds);
  /// Adds a run of values that all lie in `bin`.
  void add_to_bin(std::int32_t bin, std::int64_t weight, double weighted_sum);

 private:
  std::vector<std::int64_t> counts_;  // by bin - first_
  std::int32_t first_ = 0;
  std::int64_t count_ = 0, zeros_ = 0;
  double sum_ = 0;
};

}  // namespace plimsoll::sched

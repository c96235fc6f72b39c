// SPDX-License-Identifier: Apache-2.0
// A weighted histogram of positive times with bins of equal ratio: quantiles within 0.1 % of the true value, in fixed
// memory. The counts do not depend on the order or grouping of additions, so leaps and single steps agree.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace plimsoll::sched {

/// Counts by bins of equal width in the logarithm. Quantiles are exact to half a bin; sums are exact.
class LogHistogram {
 public:
  /// Adds `weight` copies of `seconds`; values of zero or less count as 0.
  void add(double seconds, std::int64_t weight) { sum_ += add_counts(seconds, weight); }
  /// Adds `weight` copies to the counts only. Returns their sum.
  [[nodiscard]] double add_counts(double seconds, std::int64_t weight);
  void add_sum(double weighted_sum) { sum_ += weighted_sum; }
  /// Adds all values of another histogram.
  void merge(const LogHistogram& other);
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Returns the mean in seconds; 0 if empty. Computed from the values, not from the bins.
  [[nodiscard]] double mean() const;
  /// Returns the centre of the bin that holds the q-quantile, q in [0, 1]; 0 if empty.
  [[nodiscard]] double quantile(double q) const;
  /// Returns the bin of a value. For a monotone run of values, a driver searches for the positions where the bin
  /// changes instead of adding each value.
  [[nodiscard]] static std::int32_t bin_of(double seconds);
  /// Adds a run of values that all lie in `bin`; `weighted_sum` is their weighted sum in seconds.
  void add_to_bin(std::int32_t bin, std::int64_t weight, double weighted_sum);

 private:
  std::vector<std::int64_t> counts_;  // index: bin - first_
  std::int32_t first_ = 0;
  std::int64_t count_ = 0, zeros_ = 0;
  double sum_ = 0;
};

/// One contributor to a shared histogram. Counts do not depend on the order in which values are added, but sums of
/// doubles do, so each contributor keeps its own sum. All contributors of a histogram must be on one thread.
class HistogramShare {
 public:
  /// Null: a histogram that is not shared.
  explicit HistogramShare(std::shared_ptr<LogHistogram> counts = {})
      : counts_(counts ? std::move(counts) : std::make_shared<LogHistogram>()) {}
  void add(double seconds, std::int64_t weight) { sum_ += counts_->add_counts(seconds, weight); }
  void add_to_bin(std::int32_t bin, std::int64_t weight, double weighted_sum) {
    counts_->add_to_bin(bin, weight, 0);
    sum_ += weighted_sum;
  }
  /// Returns the counts of all contributors; the sum in it is 0.
  [[nodiscard]] const LogHistogram& counts() const { return *counts_; }
  [[nodiscard]] double sum() const { return sum_; }
  /// Clears the counts of all contributors, and its own sum.
  void clear() {
    *counts_ = {};
    sum_ = 0;
  }

 private:
  std::shared_ptr<LogHistogram> counts_;
  double sum_ = 0;
};

}  // namespace plimsoll::sched

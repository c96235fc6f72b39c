// SPDX-License-Identifier: Apache-2.0
#include "sched/log_histogram.h"

#include <cmath>

namespace plimsoll::sched {

namespace {
// Bins [g^b, g^(b+1)) with g = 1.002: the geometric centre is within 0.1 % of every value in the bin.
const double kLogRatio = std::log(1.002);
}  // namespace

std::int32_t LogHistogram::bin_of(double seconds) {
  return static_cast<std::int32_t>(std::floor(std::log(seconds) / kLogRatio));
}

double LogHistogram::add_counts(double seconds, std::int64_t weight) {
  if (weight <= 0) return 0;
  if (!(seconds > 0)) {
    zeros_ += weight;
    count_ += weight;
    return 0;
  }
  add_to_bin(bin_of(seconds), weight, 0);
  return seconds * static_cast<double>(weight);
}

void LogHistogram::add_to_bin(std::int32_t bin, std::int64_t weight, double weighted_sum) {
  if (counts_.empty()) {
    first_ = bin;
    counts_.push_back(0);
  } else if (bin < first_) {
    counts_.insert(counts_.begin(), static_cast<std::size_t>(first_ - bin), 0);
    first_ = bin;
  } else if (static_cast<std::size_t>(bin - first_) >= counts_.size()) {
    counts_.resize(static_cast<std::size_t>(bin - first_) + 1, 0);
  }
  counts_[static_cast<std::size_t>(bin - first_)] += weight;
  count_ += weight;
  sum_ += weighted_sum;
}

void LogHistogram::merge(const LogHistogram& other) {
  for (std::size_t i = 0; i < other.counts_.size(); ++i)
    if (other.counts_[i] > 0) add_to_bin(other.first_ + static_cast<std::int32_t>(i), other.counts_[i], 0);
  zeros_ += other.zeros_;
  count_ += other.zeros_;
  sum_ += other.sum_;
}

double LogHistogram::mean() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : 0; }

double LogHistogram::quantile(double q) const {
  if (count_ == 0) return 0;
  const double rank = q * static_cast<double>(count_ - 1);
  double below = static_cast<double>(zeros_);
  if (rank < below) return 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += static_cast<double>(counts_[i]);
    if (rank < below) return std::exp((first_ + static_cast<std::int32_t>(i) + 0.5) * kLogRatio);
  }
  return std::exp((first_ + static_cast<std::int32_t>(counts_.size()) - 0.5) * kLogRatio);
}

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
// Batch means with a fixed number of batches, corrected for the correlation left between them. This is what Tafazzoli
// and Wilson's Skart procedure does, but without its skewness term. Using ever fewer batches until a test for
// correlation passes would waste degrees of freedom in runs as short as planning needs.
#include "sched/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace plimsoll::sched {

namespace {

constexpr std::size_t kMaxBatches = 30, kMinBatches = 8, kMinBatchSize = 8;

struct Moments {
  double mean = 0, squares = 0;  // squares: sum of squared deviations
};

Moments moments(std::span<const double> values) {
  Moments m;
  for (const double value : values) m.mean += value;
  m.mean /= static_cast<double>(values.size());
  for (const double value : values) m.squares += (value - m.mean) * (value - m.mean);
  return m;
}

double half_width(const Moments& m, std::size_t count) {
  const auto n = static_cast<double>(count);
  return student_t975(count - 1) * std::sqrt(m.squares / (n - 1) / n);
}

// The sample lag-1 correlation is biased by about -1/n without correlation, and by -(1 + 4 r)/n with correlation r.
double lag1_correlation(std::span<const double> values, const Moments& m) {
  if (!(m.squares > 0)) return 0;
  double products = 0;
  for (std::size_t i = 1; i < values.size(); ++i) products += (values[i] - m.mean) * (values[i - 1] - m.mean);
  const auto n = static_cast<double>(values.size());
  const double r = products / m.squares;
  return (n * r + 1) / (n - 4);
}

}  // namespace

double student_t975(std::size_t degrees_of_freedom) {
  return boost::math::quantile(boost::math::students_t(static_cast<double>(degrees_of_freedom)), 0.975);
}

void quantiles(std::span<double> values, std::span<const double> at, std::span<double> out) {
  auto begin = values.begin();  // earlier values are in place: none is above any value from here on
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double rank = at[i] * static_cast<double>(values.size() - 1);
    const auto low = values.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(begin, low, values.end());
    const double fraction = rank - std::floor(rank);
    out[i] = *low;
    if (fraction > 0 && low + 1 != values.end()) out[i] += fraction * (*std::min_element(low + 1, values.end()) - *low);
    begin = low;
  }
}

std::optional<double> replication_interval(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  return half_width(moments(values), values.size());
}

std::size_t batch_count(std::size_t observations) {
  const std::size_t batches = std::min(kMaxBatches, observations / kMinBatchSize);
  return batches < kMinBatches ? 0 : batches;
}

std::optional<double> batch_means_interval(std::span<const double> batch_means) {
  if (batch_means.size() < 2) return std::nullopt;
  const Moments m = moments(batch_means);
  const double plain = half_width(m, batch_means.size());
  if (batch_means.size() < kMinBatches) return plain;
  const double r = std::clamp(lag1_correlation(batch_means, m), 0.0, 0.9);
  return plain * std::sqrt((1 + r) / (1 - r));
}

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
// Order statistics and confidence intervals of simulation output. Formulas and sources: docs/metrics.md.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace plimsoll::sched {

/// The quantiles `at` (ascending, in [0, 1]) of `values`, interpolated linearly between order statistics (type 7), into
/// `out` of the same size. Reorders `values`, which is not empty; cheaper than a sort: each selection narrows the next.
void quantiles(std::span<double> values, std::span<const double> at, std::span<double> out);

/// Half-width of the two-sided 95 % Student t interval of the mean of independent values; nullopt below two of them.
[[nodiscard]] std::optional<double> replication_interval(std::span<const double> values);

/// Into how many batches a run of `observations` correlated values is cut: at most 30, at least 8 values in each; 0
/// where that leaves fewer than 8 batches, too few for an honest interval.
[[nodiscard]] std::size_t batch_count(std::size_t observations);

/// Half-width of the 95 % interval of the mean of a stationary series, given the means of its equal batches in order.
/// Batches that still depend on their neighbours would make the interval too short, so where their lag-1 correlation is
/// positive the variance is inflated by (1 + r) / (1 - r) as for a first-order autoregression. nullopt below two
/// batches.
[[nodiscard]] std::optional<double> batch_means_interval(std::span<const double> batch_means);

/// The 0.975 quantile of Student's t distribution, degrees_of_freedom >= 1.
[[nodiscard]] double student_t975(std::size_t degrees_of_freedom);

}  // namespace plimsoll::sched

// SPDX-License-Identifier: Apache-2.0
// Order statistics and confidence intervals of simulation output. Formulas and sources: docs/metrics.md.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace plimsoll::sched {

/// Writes the quantiles `at` (ascending, in [0, 1]) of `values` to `out`, which has the size of `at`. Interpolates
/// linearly between order statistics (type 7). Reorders `values`, which must not be empty. Cheaper than a sort: each
/// selection narrows the range of the next.
void quantiles(std::span<double> values, std::span<const double> at, std::span<double> out);

/// Returns the half-width of the two-sided 95 % Student t interval of the mean of independent values; nullopt for fewer
/// than two.
[[nodiscard]] std::optional<double> replication_interval(std::span<const double> values);

/// Returns the number of batches for a run of `observations` correlated values: at most 30, with at least 8 values
/// each; 0 if there would be fewer than 8 batches, too few for a valid interval.
[[nodiscard]] std::size_t batch_count(std::size_t observations);

/// Returns the half-width of the 95 % interval of the mean of a stationary series, given the means of its equal batches
/// in order. Batches that still depend on their neighbours would make the interval too short. So if their lag-1
/// correlation r is positive, the variance is multiplied by (1 + r) / (1 - r), as for a first-order autoregression.
/// nullopt if there are fewer than two batches.
[[nodiscard]] std::optional<double> batch_means_interval(std::span<const double> batch_means);

/// Returns the 0.975 quantile of Student's t distribution, degrees_of_freedom >= 1.
[[nodiscard]] double student_t975(std::size_t degrees_of_freedom);

}  // namespace plimsoll::sched

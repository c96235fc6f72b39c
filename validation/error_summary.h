// SPDX-License-Identifier: Apache-2.0
// Summary of prediction errors, defined once for everything that is compared.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::validation {

/// Quantiles are of absolute relative errors, interpolated as in sched/statistics.h; `bias` is the mean of the signed
/// errors. All are 0 if there are no errors. `banded` is the number of predictions with a 90 % band, and `in_band` the
/// number of those whose band contains the measurement.
struct ErrorSummary {
  std::size_t count = 0, missing = 0, banded = 0, in_band = 0;
  double mean = 0, median = 0, p90 = 0, bias = 0;
  /// Returns "88 %"; empty if there are no bands.
  [[nodiscard]] std::string coverage() const;
};

/// Summarises errors, each predicted / measured - 1.
[[nodiscard]] ErrorSummary summarise_errors(std::vector<double> relative_errors);

}  // namespace plimsoll::validation

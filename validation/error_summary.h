// SPDX-License-Identifier: Apache-2.0
// How far off predictions are, in one definition for everything that is compared.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::validation {

/// Of the absolute relative errors, quantiles interpolated as everywhere (sched/statistics.h); bias is the mean of the
/// signed ones. All 0 where there are none. `banded` predictions have a 90 % band; `in_band` of these hold the
/// measurement.
struct ErrorSummary {
  std::size_t count = 0, missing = 0, banded = 0, in_band = 0;
  double mean = 0, median = 0, p90 = 0, bias = 0;
  /// "88 %"; empty without bands.
  [[nodiscard]] std::string coverage() const;
};

/// Of predicted / measured - 1.
[[nodiscard]] ErrorSummary summarise_errors(std::vector<double> relative_errors);

}  // namespace plimsoll::validation

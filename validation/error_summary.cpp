// SPDX-License-Identifier: Apache-2.0
#include "validation/error_summary.h"

#include <fmt/format.h>

#include <cmath>

#include "sched/statistics.h"

namespace plimsoll::validation {

ErrorSummary summarise_errors(std::vector<double> errors) {
  ErrorSummary out;
  out.count = errors.size();
  if (errors.empty()) return out;
  for (double& error : errors) {
    out.bias += error;
    error = std::abs(error);
    out.mean += error;
  }
  out.mean /= static_cast<double>(out.count);
  out.bias /= static_cast<double>(out.count);
  constexpr double kAt[] = {0.5, 0.9};
  double found[2];
  sched::quantiles(errors, kAt, found);
  out.median = found[0];
  out.p90 = found[1];
  return out;
}

std::string ErrorSummary::coverage() const {
  return banded == 0 ? "" : fmt::format("{:.0f} %", 100.0 * static_cast<double>(in_band) / static_cast<double>(banded));
}

}  // namespace plimsoll::validation

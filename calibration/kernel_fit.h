// SPDX-License-Identifier: Apache-2.0
// Turns measured kernels into a table (model/kernel_table.h). Fits the roofline by damped Gauss-Newton on the logarithm
// of the error, and stores the remaining ratios. Searches the metric that best predicts left-out configurations.
#pragma once

#include <span>

#include "calibration/kernel_rows.h"
#include "model/accelerator.h"
#include "model/kernel_table.h"

namespace plimsoll::calibration {

/// Errors of the table's predictions when one item at a time is left out: mean |predicted / measured - 1| over its
/// measurements.
struct LeftOutErrors {
  double configuration = 0;  // LeaveOut::configuration
  double shape = 0;          // MoE: LeaveOut::shape; else the same
  double column = 0;         // one column (number of rows, context) at a time, interpolated
};

/// Fits the measurements of one op, type and kernel on one accelerator; `rows` must not be empty and must belong to one
/// table. Deterministic. Throws InputError if the accelerator's peak or bandwidth is unknown.
[[nodiscard]] model::KernelTable fit_kernel_table(std::span<const KernelMeasurement* const> rows,
                                                  const model::Accelerator& accelerator);
/// Measured times of one op: work[i] takes seconds[i].
struct KernelTimes {
  std::span<const model::KernelWork> work;
  std::span<const double> seconds;
};
struct FittedRoofline {
  model::OpCoefficients coefficients;
  model::WarmCache cache;
};
/// Fits the roofline alone. With a cache size other than 0, the speedup by the cache is fitted too.
[[nodiscard]] FittedRoofline fit_roofline(model::KernelOp op, const KernelTimes& times, const model::Roof& roof,
                                          Bytes cache);
[[nodiscard]] LeftOutErrors left_out_errors(const model::KernelTable& table);

}  // namespace plimsoll::calibration

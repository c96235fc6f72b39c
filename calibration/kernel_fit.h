// SPDX-License-Identifier: Apache-2.0
// From measured kernels to a table (model/kernel_table.h): the roofline by damped Gauss-Newton on the logarithm of the
// error, the ratios that it leaves, and the metric that predicts configurations best that are left out.
#pragma once

#include <span>
#include <vector>

#include "calibration/kernel_rows.h"
#include "model/accelerator.h"
#include "model/kernel_table.h"

namespace plimsoll::calibration {

/// Errors of predictions that a table makes for itself: mean |predicted / measured - 1| over its measurements with what
/// is left out at a time.
struct LeftOutErrors {
  double configuration = 0;  // LeaveOut::configuration
  double shape = 0;          // MoE: LeaveOut::shape; else the same
  double column = 0;         // one column (number of rows, context) at a time, interpolated
};

/// Fits the measurements of one op, type and kernel on one accelerator; they must not be empty and be of one table.
/// Deterministic. Throws InputError when nothing can be fitted (the accelerator's peak or bandwidth is not known).
[[nodiscard]] model::KernelTable fit_kernel_table(std::span<const KernelMeasurement* const> rows,
                                                  const model::Accelerator& accelerator);
struct FittedRoofline {
  model::OpCoefficients coefficients;
  model::WarmCache cache;
};
/// The roofline alone. `seconds` and `work` belong together. With a cache of some bytes (0: none) its speedup is fitted
/// too.
[[nodiscard]] FittedRoofline fit_roofline(model::KernelOp op, std::span<const model::KernelWork> work,
                                          std::span<const double> seconds, FlopsPerSecond peak,
                                          BytesPerSecond bandwidth, Bytes cache);
[[nodiscard]] LeftOutErrors left_out_errors(const model::KernelTable& table);

}  // namespace plimsoll::calibration

// SPDX-License-Identifier: Apache-2.0
// A slice of the decode attention residual at a fixed number of rows, made safe to evaluate at any context.
#pragma once

#include <vector>

#include "model/accelerator.h"

namespace plimsoll::model {

/// One layer's attention before the residual: constant + slope * context, seconds; never below bound_slope * context.
struct AffineTime {
  double constant = 0, slope = 0, bound_slope = 0;
};
/// A grid point: summed context, logarithms of the affine time and of the ratio to it.
struct ResidualKnot {
  double context = 0, log_base = 0, log_ratio = 0;
};
/// Knots in ascending context with the ratios interpolated at `rows`, raised where needed so that the time never falls
/// with the context and never undercuts the bound, at the knots and between them.
[[nodiscard]] std::vector<ResidualKnot> decode_residual_slice(const ResidualTable& table, double rows,
                                                              const AffineTime& affine);

}  // namespace plimsoll::model

// SPDX-License-Identifier: Apache-2.0
// The decode attention residual at a fixed number of rows, corrected so that it can be evaluated at any context.
#pragma once

#include <vector>

#include "model/accelerator.h"

namespace plimsoll::model {

/// One layer's attention without the residual: constant + slope * context, seconds; at least bound_slope * context.
struct AffineTime {
  double constant = 0, slope = 0, bound_slope = 0;
};
/// A grid point: the summed context, and a layer's time there in seconds.
struct ResidualKnot {
  double context = 0, time = 0;
};
/// Returns knots in ascending context, with the ratios interpolated at `rows`. A time above both of the next two is
/// lowered to the larger of them (a disturbed measurement). Then times are raised where needed, so that they never fall
/// with the context or below the bound. Between knots the time is linear in the context, which preserves both. Before
/// the first and after the last knot, the ratio to the affine time is constant.
[[nodiscard]] std::vector<ResidualKnot> decode_residual_slice(const ResidualTable& table, double rows,
                                                              const AffineTime& affine);

}  // namespace plimsoll::model

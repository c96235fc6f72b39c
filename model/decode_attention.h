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
/// A grid point: summed context and a layer's time there, seconds.
struct ResidualKnot {
  double context = 0, time = 0;
};
/// Knots in ascending context with the ratios interpolated at `rows`; those above both of the next two are lowered to
/// them (disturbed measurements), then raised where needed so that the time never falls with the context and never
/// undercuts the bound. Between knots the time is linear in the context, which keeps both; before the first and after
/// the last the ratio to the affine time is constant.
[[nodiscard]] std::vector<ResidualKnot> decode_residual_slice(const ResidualTable& table, double rows,
                                                              const AffineTime& affine);

}  // namespace plimsoll::model

// SPDX-License-Identifier: Apache-2.0
#include "model/decode_attention.h"

#include <algorithm>
#include <cmath>

#include "model/op_cost.h"

namespace plimsoll::model {

std::vector<ResidualKnot> decode_residual_slice(const ResidualTable& table, double rows, const AffineTime& affine) {
  std::vector<ResidualKnot> knots;
  knots.reserve(table.y.size());
  const double x = std::log2(rows);
  double before = 0;
  for (const double y : table.y) {
    const double context = rows * std::exp2(y), base = affine.constant + affine.slope * context;
    const double measured = base * std::exp(residual_at(table, x, y));
    before = std::max({before, measured, affine.bound_slope * context});
    knots.push_back({context, before});
  }
  // Beyond the last knot the ratio is constant and base / bound falls towards slope / bound_slope.
  ResidualKnot& last = knots.back();
  last.time = std::max(last.time, (affine.constant + affine.slope * last.context) * affine.bound_slope / affine.slope);
  return knots;
}

}  // namespace plimsoll::model

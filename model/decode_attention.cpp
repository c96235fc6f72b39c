// SPDX-License-Identifier: Apache-2.0
#include "model/decode_attention.h"

#include <algorithm>
#include <cmath>

#include "model/op_cost.h"

namespace plimsoll::model {

namespace {

// A time longer than both of the next two (at longer contexts) comes from a disturbed measurement. It is lowered,
// because raising all later times would spread it over all contexts. In a table for the H200, the first time (two
// tokens) was 2.5 times too long.
void lower_peaks(std::vector<ResidualKnot>& knots) {
  for (std::size_t i = 0; i + 2 < knots.size(); ++i)
    knots[i].time = std::min(knots[i].time, std::max(knots[i + 1].time, knots[i + 2].time));
}

}  // namespace

std::vector<ResidualKnot> decode_residual_slice(const ResidualTable& table, double rows, const AffineTime& affine) {
  std::vector<ResidualKnot> knots;
  knots.reserve(table.y.size());
  const double x = std::log2(rows);
  for (const double y : table.y) {
    const double context = rows * std::exp2(y), base = affine.constant + affine.slope * context;
    knots.push_back({context, base * std::exp(residual_at(table, x, y))});
  }
  lower_peaks(knots);
  double before = 0;
  for (ResidualKnot& knot : knots)
    knot.time = before = std::max({before, knot.time, affine.bound_slope * knot.context});
  // Beyond the last knot the ratio is constant, and base / bound falls towards slope / bound_slope.
  ResidualKnot& last = knots.back();
  last.time = std::max(last.time, (affine.constant + affine.slope * last.context) * affine.bound_slope / affine.slope);
  return knots;
}

}  // namespace plimsoll::model

// SPDX-License-Identifier: Apache-2.0
#include "model/decode_attention.h"

#include <algorithm>
#include <cmath>

#include "model/op_cost.h"

namespace plimsoll::model {
namespace {

double log_bound(const AffineTime& affine, double context) { return std::log(affine.bound_slope * context); }

// How far the time falls below the bound between two knots that respect it. With log t = a + k log(base), the gap to the
// bound is widest where 1/c = k slope / (constant + slope c), so at c = constant / (slope (k - 1)).
double deficit_between(const AffineTime& affine, const ResidualKnot& left, const ResidualKnot& right) {
  const double span = right.log_base - left.log_base;
  if (span <= 0) return 0;
  const double k = 1 + (right.log_ratio - left.log_ratio) / span;
  if (k <= 1) return 0;
  const double context = affine.constant / (affine.slope * (k - 1));
  if (context <= left.context || context >= right.context) return 0;
  const double log_base = std::log(affine.constant + affine.slope * context);
  const double log_time = left.log_base + left.log_ratio + k * (log_base - left.log_base);
  return std::max(0.0, log_bound(affine, context) - log_time);
}

void raise_to_bound(const AffineTime& affine, std::vector<ResidualKnot>& knots) {
  for (ResidualKnot& knot : knots) {
    knot.log_ratio = std::max(knot.log_ratio, log_bound(affine, knot.context) - knot.log_base);
  }
  // Raising a knot only raises its neighbours' chords, so one pass is enough.
  for (std::size_t i = 0; i + 1 < knots.size(); ++i) {
    const double deficit = deficit_between(affine, knots[i], knots[i + 1]);
    knots[i].log_ratio += deficit;
    knots[i + 1].log_ratio += deficit;
  }
  // Beyond the last knot the ratio is constant and base / bound falls towards slope / bound_slope.
  knots.back().log_ratio = std::max(knots.back().log_ratio, std::log(affine.bound_slope / affine.slope));
}

}  // namespace

std::vector<ResidualKnot> decode_residual_slice(const ResidualTable& table, double rows, const AffineTime& affine) {
  std::vector<ResidualKnot> knots;
  for (const double y : table.y) {
    const double context = rows * std::exp2(y);
    knots.push_back({context, std::log(affine.constant + affine.slope * context),
                     residual_at(table, std::log2(rows), y)});
  }
  raise_to_bound(affine, knots);
  for (std::size_t i = 0; i + 1 < knots.size(); ++i) {
    const double fallen = knots[i].log_base + knots[i].log_ratio - knots[i + 1].log_base;
    knots[i + 1].log_ratio = std::max(knots[i + 1].log_ratio, fallen);
  }
  return knots;
}

}  // namespace plimsoll::model

// SPDX-License-Identifier: Apache-2.0
#include "study/run/curve_shape.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::study {

std::optional<std::size_t> knee(std::span<const CurvePoint> points) {
  if (points.size() < 3) return {};
  std::size_t best = 0;
  double most = -1;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double power = points[i].latency > 0 ? points[i].throughput / points[i].latency : 0;
    if (power <= most) continue;
    most = power;
    best = i;
  }
  if (best == 0 || best + 1 == points.size()) return {};
  return best;
}

std::optional<Crossing> first_crossing(std::span<const double> at, std::span<const double> value, double limit) {
  for (std::size_t i = 0; i + 1 < std::min(at.size(), value.size()); ++i) {
    if (!(value[i] <= limit && value[i + 1] > limit)) continue;
    const double share = (limit - value[i]) / (value[i + 1] - value[i]);
    return Crossing{at[i] + share * (at[i + 1] - at[i]), i};
  }
  return {};
}

std::vector<std::size_t> pareto_front(std::span<const double> x, std::span<const double> y) {
  std::vector<std::size_t> order(std::min(x.size(), y.size()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return x[a] != x[b] ? x[a] > x[b] : y[a] > y[b]; });
  std::vector<std::size_t> front;
  for (const std::size_t i : order) {
    if (front.empty() || y[i] > y[front.back()]) front.push_back(i);
  }
  return front;
}

}  // namespace plimsoll::study

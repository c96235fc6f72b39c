// SPDX-License-Identifier: Apache-2.0
// The p-norm of two times; inline because every decode step computes one.
#pragma once

#include <algorithm>
#include <cmath>

namespace plimsoll::model {

/// (a^p + b^p)^(1/p) for a, b >= 0 and p >= 1, and the share a^p / (a^p + b^p); 0 if both are 0.
struct PNorm {
  double value = 0, share_a = 0;
};

/// base^exponent for 0 <= base <= 1. exp and log take half the time of pow and cbrt. They lose the last bits, which are
/// far below the accuracy of the model.
[[nodiscard]] inline double unit_power(double base, double exponent) {
  if (exponent == 3) return base * base * base;
  if (exponent == 2) return base * base;
  if (exponent == 1) return base;
  return base == 0 ? 0 : std::exp(exponent * std::log(base));
}
/// Returns base^(1 / exponent) for base > 0.
[[nodiscard]] inline double unit_root(double base, double exponent) {
  if (exponent == 2) return std::sqrt(base);
  return exponent == 1 ? base : std::exp(std::log(base) / exponent);
}

[[nodiscard]] inline PNorm p_norm(double a, double b, double p) {
  const double large = std::max(a, b), small = std::min(a, b);
  if (large == 0) return {};
  if (small == 0) return {large, a > 0 ? 1.0 : 0.0};
  const double s = unit_power(small / large, p);
  const double share = 1 / (1 + s);  // share of the larger term
  return {large * unit_root(1 + s, p), a >= b ? share : 1 - share};
}

}  // namespace plimsoll::model

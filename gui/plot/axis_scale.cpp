// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/plot/axis_scale.h"

#include <algorithm>
#include <cmath>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

// Returns 1, 2 or 5 times a power of ten that gives at most about `wanted` steps.
double nice_step(double range, int wanted) {
  const double rough = range / std::max(1, wanted);
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * decade * 1.0001) return factor * decade;
  }
  return 10 * decade;
}

}  // namespace

std::optional<double> AxisScale::place(double value) const {
  if (!std::isfinite(value) || (log_ && value <= 0)) return {};
  return log_ ? std::log10(value) : value;
}

double AxisScale::value(double place) const { return log_ ? std::pow(10, place) : place; }

void AxisScale::fit(const std::vector<double>& places, bool from_zero, bool symmetric) {
  if (places.empty()) {
    low_ = 0;
    high_ = 1;
    return;
  }
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  double low = *least, high = *most;
  if (log_) {
    const double margin = std::max(0.06 * (high - low), 0.04);
    // Snap to a grid, so that the axis does not move with every new point.
    constexpr double kSnap = 0.05;  // decades
    low_ = std::floor((low - margin) / kSnap) * kSnap;
    high_ = std::max(std::ceil((high + margin) / kSnap) * kSnap, low_ + 0.3);
    return;
  }
  if (from_zero) {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
  }
  if (!(high > low)) high = low + (low == 0 ? 1 : std::abs(low) * 0.1);
  const double step = nice_step(high - low, 8) / 2;
  low_ = low == 0 ? 0 : std::floor((low - 0.02 * (high - low)) / step) * step;
  high_ = std::ceil((high + 0.02 * (high - low)) / step) * step;
  if (!symmetric) return;
  high_ = std::max(std::abs(low_), std::abs(high_));
  low_ = -high_;
}

void AxisScale::fit_loosely(const std::vector<double>& places, bool from_zero, bool symmetric) {
  constexpr double kMost = 1.6;  // times the range that fit() chooses
  const double low = low_, high = high_;
  if (places.empty()) return;
  fit(places, from_zero, symmetric);
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  // Each end stays if it holds; the ends of a symmetric range move together.
  const bool below = low <= *least, above = *most <= high;
  const double kept_low = below && (above || !symmetric) ? low : std::min(low, low_);
  const double kept_high = above && (below || !symmetric) ? high : std::max(high, high_);
  if (kept_high - kept_low > kMost * (high_ - low_)) return;
  low_ = kept_low;
  high_ = kept_high;
}

std::vector<AxisTick> AxisScale::linear_ticks(int wanted) const {
  std::vector<AxisTick> out;
  const double from = value(low_), to = value(high_);
  double step = nice_step(to - from, wanted);
  // A symmetric range needs ticks on both sides of 0, however few labels fit.
  if (from == -to) {
    for (int more = wanted + 1; step > to; ++more) step = nice_step(to - from, more);
  }
  for (double k = std::ceil(from / step - 1e-9); k * step <= to + step * 1e-9; ++k) {
    const double v = k * step;
    if (const auto at = place(v)) out.push_back({*at, reader_text(std::abs(v) < step * 1e-9 ? 0 : v, 6)});
  }
  return out;
}

std::vector<AxisTick> AxisScale::ticks(int wanted) const {
  if (!(high_ > low_)) return {};
  // Over less than about half a decade, powers of ten are too far apart for labels.
  if (!log_ || high_ - low_ < 0.55) return linear_ticks(wanted);
  std::vector<AxisTick> out;
  const double decades = high_ - low_;
  const bool twos = 3 * decades <= wanted + 1, threes = !twos && 2 * decades <= wanted + 1;
  const int every = std::max(1, static_cast<int>(std::ceil(decades / std::max(2, wanted))));
  for (int e = static_cast<int>(std::floor(low_)); e <= high_; ++e) {
    for (int m = 1; m < 10; ++m) {
      const double at = e + std::log10(m);
      if (at < low_ - 1e-9 || at > high_ + 1e-9) continue;
      const bool named = (m == 1 && e % every == 0) || (twos && (m == 2 || m == 5)) || (threes && m == 3);
      if (named || decades < 5) out.push_back({at, named ? reader_text(m * std::pow(10, e), 4) : QString()});
    }
  }
  return out;
}

}  // namespace plimsoll::gui

// SPDX-License-Identifier: Apache-2.0
#include "study/output/chart_axis.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::study {
namespace {

constexpr int kLinearSteps = 8;

// Returns the largest of 1, 2, 5 times a power of ten that gives at least kLinearSteps steps.
double nice_step(double range) {
  const double rough = range / kLinearSteps;
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * decade) return factor * decade;
  }
  return 10 * decade;
}

}  // namespace

ChartAxis::ChartAxis(Scale scale, const std::vector<double>& values) : scale_(scale) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value) || (scale == Scale::log && value <= 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (high < low) low = high = 1;
  if (scale == Scale::linear) {
    fit_linear(high);
  } else {
    fit_log(low, high);
  }
}

void ChartAxis::fit_linear(double high) {
  const double top = high > 0 ? high * 1.04 : 1;
  const double step = nice_step(top);
  low_ = 0;
  high_ = top;
  for (int i = 0; i * step <= top; ++i) ticks_.push_back({i * step, reader_number(i * step)});
}

void ChartAxis::fit_log(double low, double high) {
  const double span = std::max(std::log10(high / low), 0.3);
  const double margin = std::pow(10, 0.06 * span);
  low_ = low / margin;
  high_ = std::max(high * margin, low_ * 2);
  const double decades = std::log10(high_ / low_);
  for (int e = static_cast<int>(std::floor(std::log10(low_))); std::pow(10, e) <= high_; ++e) {
    for (int m = 1; m < 10; ++m) {
      const double value = m * std::pow(10, e);
      if (value < low_ || value > high_) continue;
      const bool named = m == 1 || (decades < 2.6 && (m == 2 || m == 5)) || (decades < 0.9);
      ticks_.push_back({value, named ? reader_number(value) : std::string()});
    }
  }
}

double ChartAxis::fraction(double value) const {
  if (scale_ == Scale::linear) return (value - low_) / (high_ - low_);
  return std::log(value / low_) / std::log(high_ / low_);
}

bool ChartAxis::shows(double value) const { return std::isfinite(value) && value >= low_ && value <= high_; }

}  // namespace plimsoll::study

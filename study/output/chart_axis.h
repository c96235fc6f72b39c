// SPDX-License-Identifier: Apache-2.0
// One axis of a chart: its range, which covers all values, its ticks, and the position of a value.
#pragma once

#include <string>
#include <vector>

#include "study/file/cell.h"

namespace plimsoll::study {

enum class Scale : unsigned char { linear, log };

struct Tick {
  double value = 0;
  std::string label;  // empty: a minor grid line
};

class ChartAxis {
 public:
  /// `values` may be empty. A log axis ignores values that are not positive.
  ChartAxis(Scale scale, const std::vector<double>& values);
  /// Returns the position of a value: 0 at the low end, 1 at the high end.
  [[nodiscard]] double fraction(double value) const;
  /// Returns whether the value is finite and within the axis's range.
  [[nodiscard]] bool shows(double value) const;
  [[nodiscard]] const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void fit_linear(double high);
  void fit_log(double low, double high);
  Scale scale_;
  double low_ = 0, high_ = 1;
  std::vector<Tick> ticks_;
};

}  // namespace plimsoll::study

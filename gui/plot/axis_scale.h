// SPDX-License-Identifier: GPL-3.0-or-later
// One axis: values to a plain linear scale (logarithms where asked for, so that no log axis of Qt Charts is needed,
// which hides a whole series for one value <= 0), its range and its ticks.
#pragma once

#include <QString>
#include <optional>
#include <vector>

namespace plimsoll::gui {

struct AxisTick {
  double place = 0;  // on the plain scale
  QString label;     // empty: a minor line
};

class AxisScale {
 public:
  void set_log(bool log) { log_ = log; }
  [[nodiscard]] bool is_log() const { return log_; }
  /// nullopt: cannot be drawn on this axis.
  [[nodiscard]] std::optional<double> place(double value) const;
  [[nodiscard]] double value(double place) const;
  /// The range that shows `places` with a margin, snapped outwards so that it does not tremble as they move.
  /// `symmetric`: as far below zero as above it; linear scales only.
  void fit(const std::vector<double>& places, bool from_zero, bool symmetric = false);
  void set_range(double low, double high) {
    low_ = low;
    high_ = high;
  }
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  /// About `wanted` labelled ticks at round values; on a range symmetric about zero at least one on either side.
  [[nodiscard]] std::vector<AxisTick> ticks(int wanted) const;

 private:
  [[nodiscard]] std::vector<AxisTick> linear_ticks(int wanted) const;
  bool log_ = false;
  double low_ = 0, high_ = 1;
};

}  // namespace plimsoll::gui

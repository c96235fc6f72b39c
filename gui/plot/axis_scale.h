// SPDX-License-Identifier: GPL-3.0-or-later
// One axis: maps values to a linear scale, and gives its range and its ticks. A logarithmic axis takes logarithms here,
// because the log axis of Qt Charts hides a whole series for one value <= 0.
#pragma once

#include <QString>
#include <optional>
#include <vector>

namespace plimsoll::gui {

/// A grid line.
struct AxisTick {
  double place = 0;  // position on the linear scale
  QString label;     // empty for a minor line
};

/// Values are the user's; places are what is drawn: the value, or its logarithm.
class AxisScale {
 public:
  void set_log(bool log) { log_ = log; }
  [[nodiscard]] bool is_log() const { return log_; }
  /// Returns nullopt if the value cannot be drawn on this axis.
  [[nodiscard]] std::optional<double> place(double value) const;
  /// The inverse of place().
  [[nodiscard]] double value(double place) const;
  /// Sets a range that shows `places` with a margin. It is rounded outwards to a grid, so that it does not flicker
  /// while they move. With `symmetric` (linear scales only) it extends equally above and below zero.
  void fit(const std::vector<double>& places, bool from_zero, bool symmetric = false);
  /// Like fit(), but keeps the present range if it contains `places` and is at most 1.6 times as long as needed. A
  /// range that must grow does not shrink at its other end, within the same bound.
  void fit_loosely(const std::vector<double>& places, bool from_zero, bool symmetric = false);
  /// Sets the range on the linear scale.
  void set_range(double low, double high) {
    low_ = low;
    high_ = high;
  }
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  /// Returns about `wanted` labelled ticks at round values. A range symmetric about zero gets at least one on each
  /// side.
  [[nodiscard]] std::vector<AxisTick> ticks(int wanted) const;

 private:
  [[nodiscard]] std::vector<AxisTick> linear_ticks(int wanted) const;
  bool log_ = false;
  double low_ = 0, high_ = 1;
};

}  // namespace plimsoll::gui

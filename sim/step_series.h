// SPDX-License-Identifier: Apache-2.0
// The times of consecutive identical decode steps, and sums over them without visiting each step.
//
// Step j of the series attends to context + growth * j tokens, so its time f(j) is a smooth, nondecreasing function of
// j. Sums over j = 0 … n-1 use the Gauss rule of the discrete measure. It is exact for polynomials of degree 5 or 9 on
// integer points, so no end corrections are needed. It is applied to cells that are short compared with the context,
// where its error is below 1e-11.
#pragma once

#include <cstdint>

#include "model/forward_cost.h"
#include "sched/log_histogram.h"
#include "sched/replica.h"

namespace plimsoll::sim {

class StepSeries {
 public:
  /// Tokens that a step attends to, in layers with full and with windowed attention.
  struct Context {
    double full = 0, windowed = 0;
  };

  StepSeries() = default;
  /// `curve` must outlive the series. `context` is that of the first step; every further step adds `growth`.
  StepSeries(const model::DecodeCurve& curve, Context context, Context growth)
      : curve_(&curve),
        context_(context.full),
        growth_(growth.full),
        windowed_(context.windowed),
        windowed_growth_(growth.windowed) {
    first_ = at(0);
  }

  /// Returns the time of step j, seconds.
  [[nodiscard]] double at(double j) const {
    return curve_->time(context_ + growth_ * j, windowed_ + windowed_growth_ * j);
  }
  /// Returns at(0), the shortest time of the series.
  [[nodiscard]] double first() const { return first_; }
  /// Returns the sum of at(0) … at(n-1), n <= cell().
  [[nodiscard]] double sum(std::int64_t n) const { return sums(n).total; }
  /// Returns the most steps that one call may sum.
  [[nodiscard]] std::int64_t cell() const;
  /// Returns how many of the first `n` steps end within `span` seconds. Sets `elapsed` to the sum of their times.
  [[nodiscard]] std::int64_t steps_within(double span, std::int64_t n, double& elapsed) const;
  /// Sets steps, first, total, moments and parts of `time` for the first n steps.
  void measure(std::int64_t n, sched::StepsTime& time) const;
  /// Adds at(1) … at(n-1) to the histogram, each `weight` times, exactly as if they were added one by one.
  void add_gaps(std::int64_t n, std::int64_t weight, double total, sched::HistogramShare& histogram) const;
  /// Removes the first n steps.
  void advance(std::int64_t n) {
    context_ += growth_ * static_cast<double>(n);
    windowed_ += windowed_growth_ * static_cast<double>(n);
    first_ = at(0);
    sums_.steps = 0;
  }

 private:
  struct Sums {  // sums over j = 0 … steps-1
    std::int64_t steps = 0;
    double total = 0, moment1 = 0, moment2 = 0;
    model::TimeParts parts;
  };
  template <class Visit>
  void each_node(std::int64_t n, Visit&& visit) const;
  [[nodiscard]] const Sums& sums(std::int64_t n) const;
  struct BinnedStep {
    std::int64_t step = 0;
    std::int32_t bin = 0;
  };
  [[nodiscard]] BinnedStep binned(std::int64_t step) const;
  void add_bins(BinnedStep low, BinnedStep high, std::int64_t weight, sched::HistogramShare& histogram) const;

  const model::DecodeCurve* curve_ = nullptr;
  double context_ = 0, growth_ = 0, windowed_ = 0, windowed_growth_ = 0, first_ = 0;
  mutable Sums sums_;  // the latest result: most sums are requested twice
};

}  // namespace plimsoll::sim

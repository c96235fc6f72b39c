// SPDX-License-Identifier: Apache-2.0
// Measured points between probes of the machine: a neighbour that takes cores or bandwidth shows in the probes before
// or after, and the point is measured again.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "exec/cpu/probes.h"
#include "study/run/run_control.h"
#include "study/run/run_study.h"

namespace plimsoll::validation {

/// A rate that differs by a larger part is not quiet.
inline constexpr double kQuietTolerance = 0.1;

struct QuietSettings {
  exec::SteadyRates reference;  // of the calibration; zeros: the first probes of the run take their place
  double tolerance = kQuietTolerance;
  int most_attempts = 5;
  double patience =
      std::numeric_limits<double>::infinity();  // seconds from the first point on in which points are repeated
  std::function<exec::SteadyRates()> probe;
  study::RunControl* control = nullptr;
};

/// How a point came about.
struct QuietRecord {
  std::size_t point = 0;
  exec::SteadyRates before, after;  // of the last attempt
  int attempts = 0;
  bool quiet = false;
};

/// Whether both rates are within the tolerance of the reference's.
[[nodiscard]] bool is_quiet(const exec::SteadyRates& rates, const exec::SteadyRates& reference, double tolerance);

/// Wraps the function that measures a point. For one thread.
class QuietRuns {
 public:
  QuietRuns(QuietSettings settings, study::RunPoint measure);
  /// Measures the point until the probes around it are quiet, at most so many times; keeps the last attempt. The probe
  /// after a point is the one before the next, unless it was noisy: then there is another one first.
  [[nodiscard]] sim::RunResult run(const study::PointResult& point, const load::Scenario& scenario,
                                   const sim::RunOptions& options);
  [[nodiscard]] const std::vector<QuietRecord>& records() const { return records_; }
  /// Rates that count as quiet.
  [[nodiscard]] const exec::SteadyRates& reference() const { return settings_.reference; }

 private:
  [[nodiscard]] exec::SteadyRates probe();

  QuietSettings settings_;
  study::RunPoint measure_;
  std::vector<QuietRecord> records_;
  std::chrono::steady_clock::time_point start_ = {};
  exec::SteadyRates last_;
  bool probed_ = false;
};

}  // namespace plimsoll::validation

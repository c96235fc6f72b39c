// SPDX-License-Identifier: Apache-2.0
// Measures points between probes of the machine. Another program that takes cores or bandwidth lowers the rates of the
// probe before or after a point; the point is then measured again.
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

/// The machine is not quiet if a rate differs from the reference by more than this fraction.
inline constexpr double kQuietTolerance = 0.1;

struct QuietSettings {
  exec::SteadyRates reference;  // rates of the calibration; if zero, those of the first probe are used
  double tolerance = kQuietTolerance;
  int most_attempts = 5;
  double patience =
      std::numeric_limits<double>::infinity();  // seconds after the first point during which points are repeated
  std::function<exec::SteadyRates()> probe;
  study::RunControl* control = nullptr;
};

/// How a point was measured.
struct QuietRecord {
  std::size_t point = 0;
  exec::SteadyRates before, after;  // around the last attempt
  int attempts = 0;
  bool quiet = false;
};

/// Returns whether both rates are within the tolerance of the reference.
[[nodiscard]] bool is_quiet(const exec::SteadyRates& rates, const exec::SteadyRates& reference, double tolerance);

/// Wraps the function that measures a point. For one thread.
class QuietRuns {
 public:
  QuietRuns(QuietSettings settings, study::RunPoint measure);
  /// Measures the point until the probes around it are quiet, at most `most_attempts` times; keeps the last attempt.
  /// The probe after a point also serves as the one before the next, unless it was noisy; then another one comes first.
  [[nodiscard]] sim::RunResult run(const study::PointResult& point, const load::Scenario& scenario,
                                   const sim::RunOptions& options);
  [[nodiscard]] const std::vector<QuietRecord>& records() const { return records_; }
  /// Returns the rates that count as quiet.
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

// SPDX-License-Identifier: Apache-2.0
// `validate --live`: every point of a study measured on this machine between probes of its quiet, beside its
// simulation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "configs/this_machine.h"
#include "study/file/study.h"
#include "study/run/run_study.h"
#include "validation/error_summary.h"
#include "validation/quiet_runs.h"

namespace plimsoll::validation {

struct LiveSettings {
  study::RunPoint measure;  // runs a point for real
  QuietSettings quiet;
  /// The part of the points that one factor on the device's time is fitted to, in [0, 1); 0: nothing is fitted. Those
  /// points are in no error.
  double fit_part = 0;
  study::RunControl* control = nullptr;
  std::function<void(double points_done)> progress = {};
  /// The study on a machine whose device is slower by this factor; needed to fit.
  std::function<study::Study(double factor)> with_device_time = {};
};

/// One point, simulated and measured. Metrics are absent for points that cannot exist.
struct LivePoint {
  study::PointResult simulated, measured;
  QuietRecord quiet;
  bool fitted = false;  // one of those that the factor was fitted to
  [[nodiscard]] bool counts() const { return simulated.metrics && measured.metrics && quiet.quiet && !fitted; }
};

/// Runs of a study, simulated and measured, point by point.
struct LiveValidation {
  std::vector<std::string> swept_keys;
  std::vector<LivePoint> points;
  exec::SteadyRates reference;  // probes that count as quiet
  double device_factor = 1;     // fitted; 1 where nothing was
  bool cancelled = false;
  std::string basis;  // basis of the predictions
};

/// Measures and simulates every point. Throws InputError and DeviceError.
[[nodiscard]] LiveValidation validate_live(const study::Study& study, const LiveSettings& settings);

/// A compared figure: its name and its field in the metrics.
struct LiveMetric {
  const char* name;
  std::optional<double> (*of)(const sched::PointMetrics&);
};
/// Output tokens a second and mean TPOT.
[[nodiscard]] const std::vector<LiveMetric>& live_metrics();
/// Over the points that count.
[[nodiscard]] ErrorSummary live_errors(const LiveValidation& validation, const LiveMetric& metric);

/// The table, one row a point, and the errors; the same rows as CSV.
[[nodiscard]] std::string live_text(const LiveValidation& validation);
[[nodiscard]] std::string live_csv(const LiveValidation& validation);

/// A machine whose device takes `factor` times as long: peaks, bandwidths, fixed costs and all-reduces.
[[nodiscard]] configs::ThisMachine slowed(const configs::ThisMachine& machine, double factor);

}  // namespace plimsoll::validation

// SPDX-License-Identifier: Apache-2.0
// `validate --live`: measures every point of a study on this machine, between probes that show whether the machine is
// quiet, and simulates it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "configs/this_machine.h"
#include "load/pools.h"
#include "study/file/study.h"
#include "study/run/run_study.h"
#include "validation/error_summary.h"
#include "validation/quiet_runs.h"

namespace plimsoll::validation {

struct LiveSettings {
  study::RunPoint measure;  // executes a point on the machine
  QuietSettings quiet;
  /// Fraction of the points, in [0, 1), to which one factor for the device's time is fitted; 0 for no fit. These points
  /// do not count in the errors.
  double fit_part = 0;
  study::RunControl* control = nullptr;
  std::function<void(double points_done)> progress = {};
  /// Returns the study on a machine whose device is slower by the factor. Needed for a fit.
  std::function<study::Study(double factor)> with_device_time = {};
  /// With pools: returns the transfers of the point that was measured last, with the speed that was measured before its
  /// run. The predictions use it instead of the study's. May be empty.
  std::function<std::optional<load::TransferConfig>(const load::Scenario& scenario)> transfer = {};
};

/// One point, simulated and measured. Metrics are empty if the point cannot run.
struct LivePoint {
  study::PointResult simulated, measured;
  QuietRecord quiet;
  bool fitted = false;                                // the factor was fitted to this point
  std::optional<load::TransferConfig> transfer = {};  // as measured; the prediction uses it
  [[nodiscard]] bool counts() const { return simulated.metrics && measured.metrics && quiet.quiet && !fitted; }
};

/// Runs of a study, simulated and measured, point by point.
struct LiveValidation {
  std::vector<std::string> swept_keys;
  std::vector<LivePoint> points;
  exec::SteadyRates reference;  // rates that count as quiet
  double device_factor = 1;     // the fitted factor; 1 without a fit
  bool cancelled = false;
  std::string basis;  // basis of the predictions
};

/// Measures every point, then simulates it. Throws InputError and DeviceError.
[[nodiscard]] LiveValidation validate_live(const study::Study& study, const LiveSettings& settings);

/// A figure to compare: its name, its heading in the table, and how to get it from the metrics.
struct LiveMetric {
  const char *name, *title;
  double shown;  // a value of 1 in the unit of the title: 1000 for seconds in ms
  std::optional<double> (*of)(const sched::PointMetrics&);
};
/// Returns output tokens per second and mean TPOT.
[[nodiscard]] const std::vector<LiveMetric>& live_metrics();
/// Returns the figures that these runs have: with pools for prefill and decode also the mean transfer of KV.
[[nodiscard]] std::vector<LiveMetric> live_metrics(const LiveValidation& validation);
/// Returns the errors over the points that count (LivePoint::counts).
[[nodiscard]] ErrorSummary live_errors(const LiveValidation& validation, const LiveMetric& metric);

/// Return the table with one row per point and the errors, and the same rows as CSV.
[[nodiscard]] std::string live_text(const LiveValidation& validation);
[[nodiscard]] std::string live_csv(const LiveValidation& validation);

/// Returns a machine whose device takes `factor` times as long: peaks, bandwidths, fixed costs and all-reduces.
[[nodiscard]] configs::ThisMachine slowed(const configs::ThisMachine& machine, double factor);

}  // namespace plimsoll::validation

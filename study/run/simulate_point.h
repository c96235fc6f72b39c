// SPDX-License-Identifier: Apache-2.0
// Takes one point from its specification to its figures: resolve, run, collect, judge against the SLO. Sweeps, the
// planner, fits and the GUI all simulate points here, so that they report the same.
#pragma once

#include <functional>
#include <optional>

#include "sim/simulate.h"
#include "study/run/point_result.h"
#include "study/run/resolve.h"

namespace plimsoll::study {

/// One simulated point with the recorded data of its run.
struct FinishedPoint {
  PointResult result;
  sim::RunResult run;     // metrics and fleet are moved into result; empty for an impossible point
  bool recalled = false;  // not simulated: `run` is empty
};

/// Runs a point by other means than simulation. May throw InputError. If `stopped` is set in the result, the point is
/// dropped.
using RunPoint = std::function<sim::RunResult(const PointResult& point, const load::Scenario& scenario,
                                              const sim::RunOptions& options)>;
/// Returns the metrics of a point if they are already known. Then it also adds to the point why they are estimates, as
/// a run would.
using RecallPoint = std::function<std::optional<sched::PointMetrics>(PointResult& point)>;

/// Settings for running one point.
struct PointRun {
  bool stepwise = false;  // run every step as an event of its own
  bool bands = false;     // add 90 % bands to a simulated point (bands.h)
  sim::RunOptions options = {};
  RunPoint run = {};        // empty: simulate
  RecallPoint recall = {};  // may be empty
};

/// Runs the point and moves the run's metrics and fleet into its result. Adds the reasons why they are estimates, and
/// how they compare with the SLO. An impossible point is not run; its result states why. If options.stop was requested,
/// run.stopped is set and there are no metrics. Throws InputError, at the workload, for errors that only the run shows.
/// Thread-safe.
[[nodiscard]] FinishedPoint simulate_point(ResolvedPoint point, const PointRun& how = {});
[[nodiscard]] FinishedPoint simulate_point(PointSpec spec, const PointRun& how = {});

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// One point from its specification to its figures: resolve, run, take what the run gave, judge it against the SLO.
// Sweeps, the planner, fits and the window simulate points through here, so that they tell the same of each.
#pragma once

#include <functional>
#include <optional>

#include "sim/simulate.h"
#include "study/run/point_result.h"
#include "study/run/resolve.h"

namespace plimsoll::study {

/// One simulated point with what it kept of its run.
struct FinishedPoint {
  PointResult result;
  sim::RunResult run;     // metrics and fleet moved into result; empty for a point that cannot exist
  bool recalled = false;  // not simulated: `run` is empty
};

/// Runs a point some other way than by simulation. Throws InputError; `stopped` in the result drops the point.
using RunPoint = std::function<sim::RunResult(const PointResult& point, const load::Scenario& scenario,
                                              const sim::RunOptions& options)>;
/// Asked for metrics that are known already; adds to the point why they are estimates, as a run would.
using RecallPoint = std::function<std::optional<sched::PointMetrics>(PointResult& point)>;

/// How a point is run.
struct PointRun {
  bool stepwise = false;  // no leaps
  bool bands = false;     // add 90 % bands to a simulated point (bands.h)
  sim::RunOptions options = {};
  RunPoint run = {};        // empty: simulates
  RecallPoint recall = {};  // may be empty
};

/// Runs the point and moves the run's metrics and fleet into its result, with why they are estimates and how they stand
/// against the SLO. A point that cannot exist gets the reason instead. Where options.stop was requested, run.stopped is
/// set and there are no metrics. Throws InputError, at the workload, for what only the run shows. Any thread.
[[nodiscard]] FinishedPoint simulate_point(ResolvedPoint point, const PointRun& how = {});
[[nodiscard]] FinishedPoint simulate_point(PointSpec spec, const PointRun& how = {});

}  // namespace plimsoll::study

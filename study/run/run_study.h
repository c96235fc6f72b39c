// SPDX-License-Identifier: Apache-2.0
// Runs every point of a study, by simulation on as many cores as it is given (the result does not depend on how many),
// or as the caller says.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/simulate.h"
#include "study/file/study.h"
#include "study/run/point_result.h"
#include "study/run/resolve.h"
#include "study/run/run_control.h"
#include "study/run/simulate_point.h"

namespace plimsoll::study {

struct RunSettings {
  int jobs = 0;           // threads; 0: one per core
  bool stepwise = false;  // no leaps
  bool bands = false;     // add 90 % bands to simulated points (bands.h)
  bool keep_requests = false, keep_decisions = false, keep_steps = false;
  ResolveFor use = ResolveFor::simulation;  // what `run` does
  RunControl* control = nullptr;            // may be null
  RunPoint run = {};                        // empty: simulates. Real time: one job, and a pause begins after a point
  RecallPoint recall = {};                  // asked from several threads; may be empty
  /// Called as points finish, in whatever order they do, one call at a time; may be empty.
  std::function<void(FinishedPoint&)> on_point = {};
  /// Points finished so far, fractions of running ones included; one call at a time; may be empty.
  std::function<void(double points_done)> on_progress = {};
};

struct StudyResult {
  std::vector<PointResult> points;  // finished ones, in the order of the sweep
  bool cancelled = false;
};

/// Throws InputError when the study cannot be read at some point of its sweep, or consists of one point that cannot
/// exist. In a sweep such points come back without metrics.
[[nodiscard]] StudyResult run_study(const Study& study, const RunSettings& settings);

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// Runs every point of a study, by simulation or by a function of the caller. The number of threads does not affect the
// results.
#pragma once

#include <functional>
#include <vector>

#include "sim/simulate.h"
#include "study/file/study.h"
#include "study/run/point_result.h"
#include "study/run/resolve.h"
#include "study/run/run_control.h"
#include "study/run/simulate_point.h"

namespace plimsoll::study {

/// How to run a study. The defaults simulate every point and record nothing else.
struct RunSettings {
  int jobs = 0;           // threads; 0: one per core
  bool stepwise = false;  // run every step as an event of its own
  bool bands = false;     // add 90 % bands to simulated points (bands.h)
  bool keep_requests = false, keep_decisions = false, keep_steps = false;
  ResolveFor use = ResolveFor::simulation;  // what `run` needs
  RunControl* control = nullptr;            // may be null
  RunPoint run = {};        // empty: simulate. Real-time runs need jobs = 1; a pause begins after a point
  RecallPoint recall = {};  // called on several threads; may be empty
  /// Called when a point finishes, in any order of points, never concurrently; may be empty.
  std::function<void(FinishedPoint&)> on_point = {};
  /// Gets the number of finished points, with fractions of running ones; never called concurrently; may be empty.
  std::function<void(double points_done)> on_progress = {};
};

struct StudyResult {
  std::vector<PointResult> points;  // finished points, in the order of the sweep
  bool cancelled = false;
};

/// Runs the study. Throws InputError if a point of its sweep cannot be read, or if its only point is impossible. In a
/// sweep, impossible points have no metrics.
[[nodiscard]] StudyResult run_study(const Study& study, const RunSettings& settings);

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// 90 % bands of predictions. What calibration left unexplained, as factors on the time of steps with and without
// prefill (EngineProfile::uncertainty), is propagated by simulating the point with all its times at the lower and at
// the upper end: queueing turns a factor on times into another one on latencies, and past the knee into a much larger
// one.
#pragma once

#include <set>
#include <stop_token>

#include "load/scenario.h"
#include "sched/metrics_collector.h"
#include "sim/simulate.h"

namespace plimsoll::study {

/// The factors that a point's band rests on: the errors of configurations that the fit did not see, or, in each way in
/// which the point lies beyond the fit, those of groups that were left out whole. Independent ways add up as squares of
/// logarithms; another type or version counts as another model, and a way whose errors are not known has the widest of
/// the others. Profiles without errors of their own have wide factors (estimated).
[[nodiscard]] model::TimeUncertainty band_factors(const model::EngineProfile& engine,
                                                  const std::set<model::Beyond>& kinds);

/// Fills the bands of what simulating `scenario` gave, from its `uncertainty`. Long runs are represented by their
/// beginning, whose band relative to itself is that of the whole. Engines of constant cost have no bands. A side that
/// is not bounded, because at that end the queue grows for ever, stays blank. `beyond_measured`: the run itself left
/// what was measured.
void add_bands(const load::Scenario& scenario, bool beyond_measured, sched::PointMetrics& metrics,
               std::stop_token stop = {});

/// Simulates a point and adds its bands.
[[nodiscard]] sim::RunResult simulate_with_bands(const load::Scenario& scenario, const sim::RunOptions& options);

}  // namespace plimsoll::study

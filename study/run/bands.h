// SPDX-License-Identifier: Apache-2.0
// 90 % bands of predictions. What calibration left unexplained, as factors on the time of steps with and without prefill
// (EngineProfile::uncertainty), is propagated by simulating the point with all its times at the lower and at the upper end:
// queueing turns a factor on times into another one on latencies, and past the knee into a much larger one.
#pragma once

#include <stop_token>

#include "sched/measurements.h"
#include "load/scenario.h"
#include "sim/simulate.h"

namespace plimsoll::study {

/// The factors that a point's band rests on. Of a profile without its own they are wide, and so they are squared where the
/// prediction extrapolates (both estimated).
[[nodiscard]] model::TimeUncertainty band_factors(const model::EngineProfile& engine, bool extrapolates);

/// Fills the bands of what simulating `scenario` gave. Long runs are represented by their beginning, whose band relative to
/// itself is that of the whole. Engines of constant cost have no bands. A side that is not bounded, because at that end the
/// queue grows for ever, stays blank.
void add_bands(const load::Scenario& scenario, bool extrapolates, sched::PointMetrics& metrics, std::stop_token stop = {});

/// Simulates a point and adds its bands. `extrapolates`: whether it does already, whatever else the run shows.
[[nodiscard]] sim::RunResult simulate_with_bands(const load::Scenario& scenario, const sim::RunOptions& options, bool extrapolates);

}  // namespace plimsoll::study

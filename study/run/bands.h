// SPDX-License-Identifier: Apache-2.0
// 90 % bands of predictions. The error that remains after calibration is a pair of factors on the times of steps with
// and without prefill (EngineProfile::uncertainty). The point is simulated again with all times at the lower end and at
// the upper end, because queueing turns a factor on times into another factor on latencies, which is much larger beyond
// the knee.
#pragma once

#include <set>
#include <stop_token>

#include "load/scenario.h"
#include "sched/metrics_collector.h"
#include "sim/simulate.h"

namespace plimsoll::study {

/// Returns the factors for a point's band: the errors of configurations that the fit did not see. For each way in which
/// the point lies beyond the fit, they are the errors of whole groups left out. Independent ways are combined by adding
/// squares of logarithms. Another type or version counts as another model. A way with unknown errors gets the widest of
/// the other errors. A profile that states no errors gets wide, estimated factors.
[[nodiscard]] model::TimeUncertainty band_factors(const model::EngineProfile& engine,
                                                  const std::set<model::Beyond>& kinds);

/// Adds bands to `metrics`, the result of simulating `scenario`, from the scenario's `uncertainty`. Of a long run only
/// the beginning is simulated again, since it has the same relative band. Engines of constant cost have no bands. A
/// side stays blank if it is unbounded because the queue grows without end there. `beyond_measured`: the run itself
/// went beyond what was measured.
void add_bands(const load::Scenario& scenario, bool beyond_measured, sched::PointMetrics& metrics,
               std::stop_token stop = {});

/// Simulates a point and adds its bands.
[[nodiscard]] sim::RunResult simulate_with_bands(const load::Scenario& scenario, const sim::RunOptions& options);

}  // namespace plimsoll::study

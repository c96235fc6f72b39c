// SPDX-License-Identifier: Apache-2.0
// A first estimate of a point in closed form, which takes about ten microseconds. It uses mean lengths, a full batch
// and no randomness. The window shows it, marked as an estimate, until the simulation has finished.
#pragma once

#include <optional>

#include "load/scenario.h"
#include "sched/metrics_collector.h"

namespace plimsoll::study {

/// Mean prompt and output lengths, in tokens.
struct MeanLengths {
  double input = 1, output = 1;
};
/// Returns the mean lengths of the requests; for a long trace, of a thousand evenly spaced ones. nullopt for an empty
/// trace.
[[nodiscard]] std::optional<MeanLengths> mean_lengths(const load::WorkloadSpec& workload);

/// Notation: b sequences in a replica's batch, context c = input + output / 2, d(b) the time of a decode step, p that
/// of a prefill. A request is in service for S = output d(b) + b p, because each of the b prefills delays all
/// sequences. A closed loop of n clients has b = min(n, batch limit, KV pool / (input + output)) and latency S n / b
/// (Little). An open loop of rate r has b = r S(b). All quantiles are set to the mean. nullopt: beyond capacity, or no
/// rate (traces, scripts).
[[nodiscard]] std::optional<sched::PointMetrics> estimate_point(const load::Scenario& scenario);

}  // namespace plimsoll::study

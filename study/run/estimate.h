// SPDX-License-Identifier: Apache-2.0
// A first guess of a point in closed form, in some ten microseconds, for a window that must show something before the
// simulation has finished. Mean lengths, a full batch, no randomness: what it gives is drawn as an estimate and
// replaced.
#pragma once

#include <optional>

#include "load/scenario.h"
#include "sched/metrics_collector.h"

namespace plimsoll::study {

struct MeanLengths {
  double input = 1, output = 1;
};
/// What requests have in the mean; of a long trace, of a thousand of them. nullopt: an empty trace.
[[nodiscard]] std::optional<MeanLengths> mean_lengths(const load::LengthSpec& spec);

/// With b sequences in the batch of a replica, context c = input + output / 2, d(b) the time of a decode step and p
/// that of a prefill, a request is in service for S = output d(b) + b p, since each of the b prefills stalls all; a
/// closed loop of n clients has b = min(n, batch limit, KV pool / (input + output)) and latency S n / b (Little), an
/// open one of rate r has b = r S(b). Every quantile is the mean. nullopt: beyond capacity, or a load without a rate
/// (traces, scripts).
[[nodiscard]] std::optional<sched::PointMetrics> estimate_point(const load::Scenario& scenario);

}  // namespace plimsoll::study

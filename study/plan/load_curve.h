// SPDX-License-Identifier: Apache-2.0
// A deployment under more and more load, and where its curve bends.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "study/plan/answer.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

/// Loads from a twentieth of `capacity` (the SLO's) to beyond it; `slo` of the result is the capacity itself.
[[nodiscard]] LoadCurve load_curve(const Question& question, Trials& trials, std::size_t candidate,
                                   const Capacity& capacity);

/// The load of the largest curvature of latency over load, both scaled to the curve's own range, by circles through
/// three neighbours (Menger). Nothing below three points or where the curve is straight.
[[nodiscard]] std::optional<double> max_curvature_knee(std::span<const double> load, std::span<const double> latency);
/// The half-latency rule (Patel, ACM SIGMETRICS PER 43(2), 2015): the load at which latency is twice that at half the
/// load; for an M/M/1 queue two thirds of capacity. Nothing where latency never doubles.
[[nodiscard]] std::optional<double> half_latency_knee(std::span<const double> load, std::span<const double> latency);

}  // namespace plimsoll::study::plan

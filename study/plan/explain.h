// SPDX-License-Identifier: Apache-2.0
// What is said of an answer: what limits each candidate and by how much it loses, the winner's curve, and whether the
// answer would change if load, lengths or step times were 10 % off.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "study/plan/answer.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

/// Fills the verdict of every entry.
void explain(const Question& question, Answer& answer);

/// "34 % more USD/h", "2 GPUs more": how the objective of one differs from the best's; empty where it does not.
[[nodiscard]] std::string objective_gap(const Question& question, const Entry& entry, const Entry& best);

/// "52 % waiting", "61 % host time": the largest part of a request's latency; empty where nothing was measured.
[[nodiscard]] std::string largest_part(const sched::PointMetrics& metrics);

// A deployment under more and more load, and where its curve bends.

/// Loads from a twentieth of `capacity` (the SLO's) to beyond it; `slo` of the result is the capacity itself.
[[nodiscard]] LoadCurve load_curve(const Question& question, Trials& trials, std::size_t candidate,
                                   const Capacity& capacity);

/// The load of the largest curvature of latency over load, both scaled to the curve's own range, by circles through
/// three neighbours (Menger). Nothing below three points or where the curve is straight.
[[nodiscard]] std::optional<double> max_curvature_knee(std::span<const double> load, std::span<const double> latency);
/// The half-latency rule (Patel, ACM SIGMETRICS PER 43(2), 2015): the load at which latency is twice that at half the
/// load; for an M/M/1 queue two thirds of capacity. Nothing where latency never doubles.
[[nodiscard]] std::optional<double> half_latency_knee(std::span<const double> load, std::span<const double> latency);

// Whether the answer would still be the answer if load, lengths or the time of a step were 10 % off.

/// Looks at the winner and those near it: the best ones that meet the SLO, and the losers that would beat it and do not
/// miss by much.
[[nodiscard]] std::vector<Sensitivity> sensitivities(const Question& question, Trials& trials, const Answer& answer);

}  // namespace plimsoll::study::plan

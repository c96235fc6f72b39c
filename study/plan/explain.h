// SPDX-License-Identifier: Apache-2.0
// Explains an answer: what limits each candidate and by how much it loses, the winner's curve, and whether the answer
// would change if load, lengths or step times differed by 10 %.
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

/// Returns how the objective of an entry differs from the best one's ("34 % more USD/h", "2 GPUs more"); empty if it
/// does not.
[[nodiscard]] std::string objective_gap(const Question& question, const Entry& entry, const Entry& best);

/// Returns the largest part of a request's latency ("52 % waiting", "61 % host time"); empty if nothing was measured.
[[nodiscard]] std::string largest_part(const sched::PointMetrics& metrics);

// A deployment at increasing loads, and the knees of its curve.

/// Runs loads from a twentieth of `capacity` (by the SLO) to beyond it. `slo` of the result is the capacity itself.
[[nodiscard]] LoadCurve load_curve(const Question& question, Trials& trials, std::size_t candidate,
                                   const Capacity& capacity);

/// Returns the load with the largest curvature of latency over load, both scaled to the curve's range, by circles
/// through three neighbours (Menger). nullopt for fewer than three points or a straight curve.
[[nodiscard]] std::optional<double> max_curvature_knee(std::span<const double> load, std::span<const double> latency);
/// The half-latency rule (Patel, ACM SIGMETRICS PER 43(2), 2015): returns the load at which latency is twice that at
/// half the load; for an M/M/1 queue, two thirds of capacity. nullopt if latency never doubles.
[[nodiscard]] std::optional<double> half_latency_knee(std::span<const double> load, std::span<const double> latency);

// Checks whether the answer would change if load, lengths or step times differed by 10 %.

/// Examines the winner and its closest rivals: the best that meet the SLO, and those that would beat the winner but
/// miss the SLO by little.
[[nodiscard]] std::vector<Sensitivity> sensitivities(const Question& question, Trials& trials, const Answer& answer);

}  // namespace plimsoll::study::plan

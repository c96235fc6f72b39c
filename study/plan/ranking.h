// SPDX-License-Identifier: Apache-2.0
// The order of candidates, the only place that knows it: what meets the SLO, by the objective; at an equal objective by
// the lower price, then more capacity, lower p90 latency, fewer GPUs, the name; then what does not meet it, by how
// little it misses.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "study/plan/answer.h"

namespace plimsoll::study::plan {

/// Whether the objective follows from the deployment alone, or must be measured (as the cost of a fleet that scales).
[[nodiscard]] bool is_known(const Question& question);
/// What an hour of one run costs, in the unit of Candidate::rent: of the instances that it used.
[[nodiscard]] double run_cost(const Candidate& candidate, const sched::PointMetrics& run);
/// Of a candidate, given its standing (of capacity: elsewhere). Infinite, or 0 where more is better, beyond capacity.
[[nodiscard]] Estimate objective_of(const Question& question, const Candidate& candidate, const SloVerdict& standing);
/// Whether `a` goes before `b` by their means alone.
[[nodiscard]] bool goes_before(const Question& question, const Answer& answer, std::size_t a, std::size_t b);
/// The part of that order that decides between equal objectives.
[[nodiscard]] bool breaks_tie(const Question& question, const Answer& answer, std::size_t a, std::size_t b);

/// Whether two candidates cannot be told apart in one respect.
using Alike = std::function<bool(std::size_t, std::size_t)>;
/// Puts those that keep the SLO into their final order, where a difference counts only if it is certain, and marks
/// those that cannot be told from the first in any respect. What they carry counts as far as their entries have it.
void settle(const Question& question, Answer& answer, std::vector<std::size_t>& order, const Alike& by_objective,
            const Alike& by_latency);
/// Fills answer.order and answer.winner; `leaders`, in their settled order, go first.
void rank(const Question& question, Answer& answer, const std::vector<std::size_t>& leaders);
/// Marks the entries that no other beats in all of p90 latency, output tokens/s a GPU and USD/h; of equals, the first.
void mark_frontier(const Question& question, Answer& answer);

}  // namespace plimsoll::study::plan

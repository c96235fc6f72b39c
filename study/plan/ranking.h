// SPDX-License-Identifier: Apache-2.0
// The order of candidates: what meets the SLO, by objective, then fewer GPUs, then lower p90 latency, then name; then what
// does not, by how little it misses.
#pragma once

#include <cstddef>
#include <vector>

#include "study/plan/answer.h"

namespace plimsoll::study::plan {

/// Whether the objective follows from the deployment alone, or must be measured (as the cost of a fleet that scales).
[[nodiscard]] bool is_known(const Question& question);
/// What an hour of one run costs, in the unit of Candidate::rent: of the instances that it used.
[[nodiscard]] double run_cost(const Candidate& candidate, const sched::PointMetrics& run);
/// Of a candidate, given its standing (of capacity: elsewhere). Infinite, or 0 where more is better, beyond capacity.
[[nodiscard]] Estimate objective_of(const Question& question, const Candidate& candidate, const Standing& standing);
/// Whether `a` goes before `b` by their means alone.
[[nodiscard]] bool goes_before(const Question& question, const Answer& answer, std::size_t a, std::size_t b);
/// Fills answer.order and answer.winner; `leaders`, in their settled order, go first.
void rank(const Question& question, Answer& answer, const std::vector<std::size_t>& leaders);
/// Marks the entries that no other beats in all of p90 latency, output tokens/s a GPU and USD/h; of equals, the first.
void mark_frontier(const Question& question, Answer& answer);

}  // namespace plimsoll::study::plan

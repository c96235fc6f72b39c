// SPDX-License-Identifier: Apache-2.0
// The order of candidates, which is defined only here. Those that meet the SLO come first, by the objective; at an
// equal objective by lower price, then more capacity, lower p90 latency, fewer GPUs, and the name. Those that miss it
// follow, by how little they miss it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "study/plan/answer.h"

namespace plimsoll::study::plan {

/// Returns whether the objective follows from the deployment alone; if not (a fleet that scales), runs must measure it.
[[nodiscard]] bool is_known(const Question& question);
/// Returns the hourly cost of one run, by the instances that it used, in the unit of Candidate::rent.
[[nodiscard]] double run_cost(const Candidate& candidate, const sched::PointMetrics& run);
/// The same for a mean number of instances in use, some of them of the prefill pool.
[[nodiscard]] double rent_of(const Candidate& candidate, double instances, double of_prefill);
/// Returns a candidate's objective, given its standing (not for capacity). Beyond capacity it is infinite, or 0 if more
/// is better.
[[nodiscard]] Estimate objective_of(const Question& question, const Candidate& candidate, const SloVerdict& standing);
/// Returns whether `a` ranks before `b` by their means alone.
[[nodiscard]] bool goes_before(const Question& question, const Answer& answer, std::size_t a, std::size_t b);
/// Returns whether `a` ranks before `b` if their objectives are equal.
[[nodiscard]] bool breaks_tie(const Question& question, const Answer& answer, std::size_t a, std::size_t b);

/// Returns the members that no other exceeds in both pools or, with one pool, the one with the most replicas. All must
/// be of one family.
[[nodiscard]] std::vector<std::size_t> largest_of(const Question& question, const std::vector<std::size_t>& candidates);

/// Tells which candidates are indistinguishable in one respect.
struct Ties {
  std::function<bool(std::size_t, std::size_t)> by_objective, by_latency;
};
/// Puts the candidates that keep the SLO into their final order, in which only certain differences count. Marks those
/// that are indistinguishable from the first in every respect. Capacities count if their entries have them.
void settle(const Question& question, Answer& answer, std::vector<std::size_t>& order, const Ties& ties);
/// Sets answer.order and answer.winner; `leaders`, in their final order, come first.
void rank(const Question& question, Answer& answer, const std::vector<std::size_t>& leaders);
/// Marks entries that no other beats in all of p90 latency, output tokens/s per GPU and USD/h; of equals, the first.
void mark_frontier(const Question& question, Answer& answer);

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
// The largest load that a deployment carries within the SLO: brackets between a load that keeps it and one that does
// not, each with the same random numbers at every load, so that a larger load only packs the same requests closer.
// Goals of throughput, which more load serves, are not part of the brackets: they are asked for at the load that is
// found.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "study/plan/answer.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

/// How a set of brackets is run: side by side, in rounds.
struct CapacityPlan {
  bool confirms = false;   // by runs of confirming length, else by those of a first run
  bool long_runs = false;  // what is found is held against runs that are longer still: it is confirmed
  std::size_t replications = 1;
  double stride = 2, tolerance = 0.01;
  /// A candidate is not followed further once it fails at this share of what another of its kind of hardware carries;
  /// 0: all are followed. With `for_its_rent` the load that an hour's cost buys counts.
  double worth_following = 0;
  /// Nor is it followed further once it fails at this share and passes at the other one; 0: it is.
  double alike = 0;
  bool for_its_rent = false;
  double part = 1;  // of a fleet that runs in its place (sampled_replicas)
};

/// Of a load: closer ones cannot be told apart.
inline constexpr double kTellsApart = 0.01;
/// What carries less than this share of another confirmed capacity surely carries less.
inline constexpr double kSurelyLess = 0.97;

/// Where the search for one capacity begins.
struct CapacityStart {
  double load = 0;
  double requests_per_load = 0;  // that runs at such loads are known to take to tell; 0: not known
  /// The load that the study asks for, where it asks for one: a long run looks at it. `kept`: one has, and the SLO was
  /// kept; it outlives the search.
  double asked_for = 0;
  const sched::PointMetrics* kept = nullptr;
};

/// Whether more load breaks something: a queue that grows, or a limit. Not so throughput that is to be kept.
[[nodiscard]] bool ends_somewhere(const PointSpec& spec);

/// Capacities of candidates, one start each.
[[nodiscard]] std::vector<Capacity> find_capacities(const Question& question, Trials& trials,
                                                    const std::vector<std::size_t>& candidates,
                                                    const std::vector<CapacityStart>& starts, const CapacityPlan& plan);

/// Of first looks, those that cannot be told from the one that carries most, best first; the others come to be upper
/// bounds.
[[nodiscard]] std::vector<std::size_t> narrow_largest(const Question& question, Trials& trials,
                                                      std::map<std::size_t, Capacity>& first, bool for_its_rent);

/// Confirmed capacities of those that may carry most, given first looks at all of them, which come to be upper bounds
/// of the others. With `for_its_rent` the load that an hour's cost buys counts.
[[nodiscard]] std::map<std::size_t, Capacity> confirm_largest(const Question& question, Trials& trials,
                                                              std::map<std::size_t, Capacity>& first,
                                                              bool for_its_rent);

/// A much longer run at the study's load of a candidate, given one of confirming length.
[[nodiscard]] sched::PointMetrics long_run(const Question& question, Trials& trials, std::size_t candidate,
                                           const sched::PointMetrics& run);

/// First looks at all that wait, which fill their entries: those that may carry most, best first.
[[nodiscard]] std::vector<std::size_t> likely_leaders(const Question& question, Trials& trials, Answer& answer);

/// The search for the largest capacity: fills every entry that waits; the leaders in their settled order.
[[nodiscard]] std::vector<std::size_t> rank_by_capacity(const Question& question, Trials& trials, Answer& answer);

/// The capacity of one deployment, as an answer shows it. `look`: a first look at it; null: there is none yet.
[[nodiscard]] Capacity capacity_of(const Question& question, Trials& trials, std::size_t candidate,
                                   const CapacityStart& start, const Capacity* look = nullptr);

/// A start at `load`, given what a run of at least kScreeningLives at some load found.
[[nodiscard]] CapacityStart start_from(const PointSpec& spec, double load, double run_load,
                                       const sched::PointMetrics& run);
/// Near a load that is known: four replications, then long runs.
[[nodiscard]] CapacityPlan confirming_brackets();
[[nodiscard]] CapacityStart confirming_start(const Question& question, const Capacity& first);

}  // namespace plimsoll::study::plan

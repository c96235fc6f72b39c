// SPDX-License-Identifier: Apache-2.0
// Finds the largest load that a deployment carries within the SLO. A bracket lies between a load that keeps the SLO and
// one that does not. Every load uses the same random numbers, so a larger load only moves the same requests closer
// together. Throughput goals, which a larger load helps to reach, are not part of the brackets: they are checked at the
// load that is found.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "study/plan/answer.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

/// How a set of brackets runs: side by side, in rounds.
struct CapacityPlan {
  bool confirms = false;   // use runs of confirming length; false: of screening length
  bool long_runs = false;  // check the result by still longer runs, which confirm it
  std::size_t replications = 1;
  double stride = 2, tolerance = 0.01;
  /// Gives up a candidate that fails at this share of the load that another candidate on its kind of hardware carries;
  /// 0: gives up none. With `for_its_rent`, loads are compared per hourly cost.
  double worth_following = 0;
  /// Stops the search for a candidate that passes at `worth_following` and fails at this share, since the two are
  /// practically equal; 0: does not stop.
  double alike = 0;
  bool for_its_rent = false;
  double part = 1;  // share of the fleet that is simulated instead of the whole (sampled_replicas)
};

/// Relative difference of loads below which two loads are indistinguishable.
inline constexpr double kTellsApart = 0.01;
/// A capacity below this share of another confirmed capacity is certainly smaller.
inline constexpr double kSurelyLess = 0.97;
/// If the best confirmed capacity is less than this share of another candidate's capacity in short runs, that candidate
/// is confirmed too: long runs have disproved the load with which the others were compared.
inline constexpr double kDisproved = 0.95;

/// Where the search for one capacity starts.
struct CapacityStart {
  double load = 0;
  double requests_per_load = 0;  // requests that runs need per unit of load; 0: not known
  /// The study's own load, if any; a long run checks it. `kept`: a long run at that load that kept the SLO, or null; it
  /// must outlive the search.
  double asked_for = 0;
  const sched::PointMetrics* kept = nullptr;
};

/// Returns whether more load eventually fails, by a growing queue or a limit. Throughput goals do not count.
[[nodiscard]] bool ends_somewhere(const PointSpec& spec);

/// Finds the capacities of candidates, with one start each.
[[nodiscard]] std::vector<Capacity> find_capacities(Trials& trials, const std::vector<std::size_t>& candidates,
                                                    const std::vector<CapacityStart>& starts, const CapacityPlan& plan);

/// Returns the candidates that first looks cannot distinguish from the one that carries most, best first. Capacities of
/// the others in `first` become upper bounds.
[[nodiscard]] std::vector<std::size_t> narrow_largest(const Question& question, Trials& trials,
                                                      std::map<std::size_t, Capacity>& first, bool for_its_rent);

/// Returns confirmed capacities of the candidates that may carry most, given first looks at all; the entries of the
/// others in `first` become upper bounds. With `for_its_rent`, loads are compared per hourly cost.
[[nodiscard]] std::map<std::size_t, Capacity> confirm_largest(const Question& question, Trials& trials,
                                                              std::map<std::size_t, Capacity>& first,
                                                              bool for_its_rent);

/// Makes a much longer run of a candidate at the study's load, given `run` of confirming length.
[[nodiscard]] sched::PointMetrics long_run(Trials& trials, std::size_t candidate, const sched::PointMetrics& run);

/// Searches for the largest capacity and fills every waiting entry. Returns the leaders in their final order.
[[nodiscard]] std::vector<std::size_t> rank_by_capacity(const Question& question, Trials& trials, Answer& answer);

/// Returns the confirmed capacity of one deployment for an answer. `look`: the result of a first look, or null.
[[nodiscard]] Capacity capacity_of(Trials& trials, std::size_t candidate, const CapacityStart& start,
                                   const Capacity* look = nullptr);

/// Returns a start at `load`, given the result of a run of at least kScreeningLives at `run_load`.
[[nodiscard]] CapacityStart start_from(const PointSpec& spec, double load, double run_load,
                                       const sched::PointMetrics& run);
/// Returns settings for brackets near a known load: four replications, then long runs.
[[nodiscard]] CapacityPlan confirming_brackets();
[[nodiscard]] CapacityStart confirming_start(const Question& question, const Capacity& first);

}  // namespace plimsoll::study::plan

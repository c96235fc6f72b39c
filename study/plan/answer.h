// SPDX-License-Identifier: Apache-2.0
// What a search found: every candidate with its results, their order, and the winner examined in detail.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "study/plan/candidate.h"
#include "study/plan/judgement.h"
#include "study/run/rate_bound.h"

namespace plimsoll::study::plan {

enum class Stage : std::uint8_t {
  excluded,   // impossible, or beyond the search's own limits
  bounded,    // cannot meet the SLO by a bound; not simulated
  waiting,    // not simulated yet; remains if the search was cancelled
  screened,   // simulated once, as the study says
  confirmed,  // simulated longer and several times
  outranked   // not simulated, because it cannot win
};

/// The capacity: the largest load at which the SLO is met.
struct Capacity {
  bool confirmed = false;  // true: by several long runs; false: by a first, short look
  Estimate load;           // over the replications
  double passing = 0;      // largest load that passed in the first replication
  std::optional<double> failing;
  std::optional<sched::PointMetrics> at_passing, at_failing;
  /// Returns whether no load failed: then `passing` shows only how far the search went, not a limit.
  [[nodiscard]] bool is_open() const { return passing > 0 && !failing; }
};

/// What is known about one candidate; `stage` tells how much.
struct Entry {
  Stage stage = Stage::waiting;
  std::string reason;                          // why it is excluded, bounded or outranked
  SloVerdict standing;                         // at the study's load; in a search for capacity, at the load it carries
  std::optional<sched::PointMetrics> metrics;  // from the first run at that load
  Estimate objective;                          // in its own unit: USD/h, GPUs, s, tokens/s, or the load's unit
  std::optional<Capacity> capacity;
  std::optional<double> capacity_at_most;  // an upper bound, if nothing better is known
  bool on_frontier = false;
  bool ties = false;    // indistinguishable from the one before it
  std::string verdict;  // why it does not win, and by how much
};

/// One load on the winner's curve.
struct CurveLoad {
  double load = 0;
  sched::PointMetrics metrics;
};

/// The winner at increasing loads. Knees by three definitions, in the load's unit; nullopt: not within the curve.
struct LoadCurve {
  std::vector<CurveLoad> loads;
  std::optional<double> max_curvature, half_latency, slo;
};

/// How the answer changes in a scenario that differs by 10 %.
struct Sensitivity {
  std::string what;                   // the change: "load +10 %"
  std::optional<std::size_t> winner;  // index of the candidate; none: no candidate examined meets the SLO
  double ratio = 0;                   // for the original winner: the used share of the limit that it comes closest to
  std::string check;                  // name of that limit
  CheckKind check_kind = CheckKind::other;
  bool at_least = false;  // whether that limit is a minimum
};

/// A deployment with one pool, in which every replica does both prefill and decode. A winner with two pools is compared
/// with it.
struct OnePool {
  enum class Equal : std::uint8_t { gpus, money };
  Equal equal = Equal::gpus;
  bool also_money = false;  // equal GPUs also cost equal money
  bool carries = false;     // it keeps the SLO at some load; if false, `candidate` comes nearest
  Candidate candidate;      // its settings turn the study into this deployment
  Entry entry;              // with its capacity or, if nothing limits the load, its latency at the study's load
};

/// Findings that exist only for a winner with two pools.
struct PoolFindings {
  PoolNeed need;                  // at the study's load; 0: not known
  std::vector<OnePool> one_pool;  // at equal GPUs, then at equal money
  std::string not_compared;       // why there is no comparison
};

/// The result of a search for one question.
struct Answer {
  std::vector<Entry> entries;      // indexed by candidate
  std::vector<std::size_t> order;  // simulated candidates, best first; those that meet the SLO lead
  std::optional<std::size_t> winner;
  std::map<std::string, std::size_t> fewest_gpus;  // by instance type, if requested: the candidate with the fewest GPUs
  LoadCurve curve;
  std::vector<Sensitivity> sensitivities;
  std::optional<PoolFindings> pools;  // set if the winner has two pools and was examined
  std::size_t trials = 0;             // number of simulations behind the answer
  bool cancelled = false;
};

/// Returns whether smaller values of an objective are better.
[[nodiscard]] bool is_minimised(Objective objective);
/// Returns whether the search itself finds the load: capacity, and cost per token at that load.
[[nodiscard]] bool finds_load(Objective objective);
[[nodiscard]] std::string_view objective_name(Objective objective);
[[nodiscard]] std::string_view objective_unit(const Question& question);
/// Returns "/s", "clients", "requests" or "x".
[[nodiscard]] std::string_view load_unit(const load::LoadSpec& load);

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
// What a search found: every candidate with what it came to, their order, and the winner looked at from all sides.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "study/plan/candidate.h"
#include "study/plan/judgement.h"

namespace plimsoll::study::plan {

enum class Stage : std::uint8_t {
  excluded,   // cannot exist, or beyond the search's own limits
  bounded,    // cannot meet the SLO: shown without simulation
  waiting,    // not simulated yet: the search was cancelled
  screened,   // simulated once, as the study says
  confirmed,  // simulated longer, several times
  outranked   // not simulated, as it cannot win
};

/// The largest load within the SLO.
struct Capacity {
  bool confirmed = false;  // by long runs, several times; else a first look
  Estimate load;           // over replications
  double passing = 0;      // of the first replication
  std::optional<double> failing;
  std::optional<sched::PointMetrics> at_passing, at_failing;
  /// Nothing failed: the load is as far as the search went, not a limit.
  [[nodiscard]] bool is_open() const { return passing > 0 && !failing; }
};

/// What is known of one candidate, by its stage.
struct Entry {
  Stage stage = Stage::waiting;
  std::string reason;                          // of excluded, bounded and outranked ones
  SloVerdict standing;                         // at the study's load; of a search for capacity: at its own
  std::optional<sched::PointMetrics> metrics;  // of the first run at that load
  Estimate objective;                          // in its own unit: USD/h, GPUs, s, tokens/s, or the load's
  std::optional<Capacity> capacity;
  std::optional<double> capacity_at_most;  // a bound, where nothing better is known
  bool on_frontier = false;
  bool ties = false;    // cannot be told from the one before it
  std::string verdict;  // what keeps it from winning, and by how much
};

/// One load of the winner's curve.
struct CurveLoad {
  double load = 0;
  sched::PointMetrics metrics;
};

/// The winner under more and more load. Knees by three definitions, in the load's unit; nothing: not within the curve.
struct LoadCurve {
  std::vector<CurveLoad> loads;
  std::optional<double> max_curvature, half_latency, slo;
};

/// What becomes of the answer in a world that is 10 % off.
struct Sensitivity {
  std::string what;                   // "load +10 %"
  std::optional<std::size_t> winner;  // candidate; nothing: none of those that were looked at meets the SLO
  double ratio = 0;                   // the winner of the study itself: how much of its worst limit it uses there
  std::string check;                  // that limit
  CheckKind check_kind = CheckKind::other;
  bool at_least = false;  // which is a least
};

struct Answer {
  std::vector<Entry> entries;      // by candidate
  std::vector<std::size_t> order;  // candidates that were simulated, best first; those that meet the SLO lead
  std::optional<std::size_t> winner;
  std::map<std::string, std::size_t> fewest_gpus;  // by instance type, where asked for: the candidate that needs fewest
  LoadCurve curve;
  std::vector<Sensitivity> sensitivities;
  std::size_t trials = 0;  // simulations that it stands on
  bool cancelled = false;
};

/// Whether smaller values of an objective are better.
[[nodiscard]] bool is_minimised(Objective objective);
/// Whether the search itself looks for the load: capacity, and cost per token at it.
[[nodiscard]] bool finds_load(Objective objective);
[[nodiscard]] std::string_view objective_name(Objective objective);
[[nodiscard]] std::string_view objective_unit(const Question& question);
/// "/s", "clients", "x".
[[nodiscard]] std::string_view load_unit(const load::LoadSpec& load);

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
// Finds, without simulation, candidates that cannot meet the SLO whatever the random numbers are.
//
// A step that emits r tokens takes at least t(r), because the cost of a forward never falls with its work. t(r) is the
// shorter of a decode step of r rows with the shortest contexts and a prefill of r one-token prompts. So a request of
// `output` tokens lasts at least output * min t, and a replica's capacity is at most max r / t(r) tokens per second. Of
// the requests that arrive by a time T, at most capacity * (T + x) have left by T + x. If the others are more than the
// SLO allows to be later than x, the SLO is missed in every run of that length or longer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "study/plan/candidate.h"

namespace plimsoll::study::plan {

/// The result of a bound.
struct Bounded {
  std::string reason;  // why the candidate cannot meet the SLO; empty: it may
  double ratio = 0;    // the limit is exceeded at least by this factor
};

/// Returns whether the same deployment with more replicas keeps the SLO at least as well, since each then gets less of
/// the same load. False if batches wait to be filled, if requests share caches or sessions, or if replicas come and go.
[[nodiscard]] bool more_replicas_help(const PointSpec& spec);

/// Returns why a candidate cannot carry its load, given the bound on its load (RateBound); an empty reason if it may.
[[nodiscard]] Bounded beyond_rate(const Candidate& candidate, const std::optional<double>& most);

class Bounds {
 public:
  /// Checks the candidate at `load` (0: the study's own). Excludes nothing if the formulas do not hold: measured
  /// kernels or residuals, or loads without a rate.
  [[nodiscard]] Bounded problem(const Candidate& candidate, double load = 0);

 private:
  struct Floor {
    double step = 0, share = 0;  // seconds: the shortest step, and the shortest time per token
  };
  using Key = std::tuple<const void*, const void*, const void*, int, int, int, int, int, std::int64_t, std::int64_t>;
  [[nodiscard]] Floor floor_of(const Candidate& candidate);

  std::map<Key, Floor> floors_;
};

}  // namespace plimsoll::study::plan

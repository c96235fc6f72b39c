// SPDX-License-Identifier: Apache-2.0
// What no simulation need find out: candidates that cannot meet the SLO however the random numbers fall.
//
// A step that emits r tokens takes at least t(r), the shorter of a decode step of r rows with the shortest contexts and
// of r one-token prefills, since the cost of a forward never falls with its work. So a request of `output` tokens lasts
// at least output * min t, and a replica emits at most max r / t(r) tokens a second. With this much work, the requests
// that arrive by a time T and have not left x later are at least (those that arrive by T) - (capacity)(T + x): where
// that is more than the SLO forgives, it is missed in every run of that length or longer.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "study/plan/candidate.h"

namespace plimsoll::study::plan {

/// What a bound found.
struct Bounded {
  std::string reason;  // why the candidate cannot meet the SLO; empty: it may
  double ratio = 0;    // by how many times at least
};

/// Whether the same deployment with more replicas keeps the SLO at least as well: each then has less of the same load.
/// Not so where batches wait to be full, where requests share caches or sessions, or where replicas come and go.
[[nodiscard]] bool more_replicas_help(const PointSpec& spec);

class Bounds {
 public:
  /// At `load` (0: the study's own). Where the formulas do not hold (measured kernels or residuals, loads that are no
  /// rate) nothing is excluded.
  [[nodiscard]] Bounded problem(const Candidate& candidate, double load = 0);

 private:
  struct Floor {
    double step = 0, share = 0;  // seconds: the shortest step, the shortest time a token
  };
  using Key = std::tuple<const void*, const void*, const void*, int, int, int, int, std::int64_t, std::int64_t>;
  [[nodiscard]] Floor floor_of(const Candidate& candidate);

  std::map<Key, Floor> floors_;
};

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
// The largest load that a deployment could carry if its batches were always full: known before anything is simulated.
//
// A request brings `input` prompt tokens and `output` decode rows with a mean context c = input + output / 2. Per step
// the work is x = (rows, context, prompt tokens), and on the way through many requests the steps' work is in the
// proportion (1, c, input / output). The time of a step is a sum of p-norms of sums of work, so it is convex in x, and
// no way of sharing the work out among steps beats equal steps (Jensen): a request takes at least output x min over r
// of time(r x (1, c, input / output)) / r, with r and r c within the batch limit and the KV pool. That argument has
// gaps: efficiencies that depend on the shape of a product, measured kernels, and experts of which a larger batch
// reads more are not convex. So steps of prompts alone and of decodes alone are tried as well, and the bound is widened
// by 10 %; constant engines, for which it is exact, have no margin.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "load/scenario.h"
#include "study/plan/bounds.h"
#include "study/plan/candidate.h"

namespace plimsoll::study::plan {

/// Why a candidate cannot carry its load, given the most that it could; no reason where it may.
[[nodiscard]] Bounded beyond_rate(const Candidate& candidate, const std::optional<double>& most);

class RateBound {
 public:
  /// In the unit of the candidate's load (load_unit). nullopt: no bound is known, as for closed loops, bursts and
  /// scripts, shared prefixes that the workload states, and fleets that come and go.
  [[nodiscard]] std::optional<double> most(const Candidate& candidate);

 private:
  using Key = std::tuple<const void*, const void*, const void*, const void*, int, int, int, int, int, std::int64_t,
                         std::int64_t>;
  [[nodiscard]] double least_service(const load::Scenario& scenario, std::int64_t longest);

  std::map<Key, double> services_;  // seconds a request and replica, at least
};

}  // namespace plimsoll::study::plan

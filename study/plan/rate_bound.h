// SPDX-License-Identifier: Apache-2.0
// An upper bound on the load that a deployment can carry, as if its batches were always full. Needs no simulation.
//
// A request brings `input` prompt tokens and `output` decode rows with a mean context c = input + output / 2. The work
// of a step is x = (rows, context, prompt tokens); over many requests, steps do work in the proportion (1, c, input /
// output). The time of a step is a sum of p-norms of sums of work, so it is convex in x. Therefore no division of the
// work among steps beats equal steps (Jensen): a request takes at least output x min over r of time(r x (1, c, input /
// output)) / r, with r and r c within the batch limit and the KV pool. The argument has gaps: efficiencies that depend
// on the shape of a product, measured kernels, and experts (a larger batch reads more of them) are not convex. So steps
// of only prompts and of only decodes are tried as well, and the bound is widened by 10 %. Constant engines need no
// margin, because the bound is exact for them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "load/scenario.h"
#include "study/plan/bounds.h"
#include "study/plan/candidate.h"

namespace plimsoll::study::plan {

/// Returns why a candidate cannot carry its load, given the most that it could carry; no reason if it may.
[[nodiscard]] Bounded beyond_rate(const Candidate& candidate, const std::optional<double>& most);

class RateBound {
 public:
  /// Returns the bound in the unit of the candidate's load (load_unit). nullopt if none is known: for closed loops,
  /// bursts and scripts, for shared prefixes stated by the workload, and for fleets that come and go.
  [[nodiscard]] std::optional<double> most(const Candidate& candidate);

 private:
  using Key = std::tuple<const void*, const void*, const void*, const void*, int, int, int, int, int, std::int64_t,
                         std::int64_t>;
  [[nodiscard]] double least_service(const load::Scenario& scenario, std::int64_t longest);

  std::map<Key, double> services_;  // least seconds per request and replica
};

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
// An upper bound on the load that a deployment can carry, as if its batches were always full. Needs no simulation.
//
// A request brings `input` prompt tokens and `output` decode rows with a mean context c = input + output / 2. The work
// of a step is x = (rows, context, prompt tokens); over many requests, steps do work in the proportion (1, c, input /
// output). The time of a step is a sum of p-norms of sums of work, so it is convex in x. Therefore no division of the
// work among steps beats equal steps (Jensen): a request takes at least output x min over r of time(r x (1, c, input /
// output)) / r, with r and r c within the batch limit and the KV pool. The argument has gaps, because not every cost is
// convex: efficiencies depend on the shape of a product, kernels are measured, and a larger batch reads more experts.
// So steps of only prompts and of only decodes are tried as well, and the bound is widened by 10 %. Constant engines
// need no margin, because the bound is exact for them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "load/scenario.h"
#include "sched/steady_state.h"
#include "study/file/study.h"

namespace plimsoll::study {

struct RequestWork;

/// How many replicas of each pool are busy at a load if batches are always full and nothing waits ("rate matching"). A
/// starting point for a search, not an answer. 0: not known.
struct PoolNeed {
  double prefill = 0, decode = 0;
};

/// Returns by what factor a pool of this kind may do better than its bound: 1 if the bound is exact.
[[nodiscard]] double rate_margin(const PointSpec& pool);
/// Returns whether decode replicas may compute prompts, so that prefill replicas need not compute all.
[[nodiscard]] bool has_local_prefills(const PointSpec& spec);

/// Returns how many of a pool's replicas are beyond its need, at least 0; nullopt if the need is not known.
[[nodiscard]] std::optional<double> beyond_need(double need, std::int32_t replicas);

/// Returns whether requests may find blocks of other requests, or of earlier turns, in a cache of this policy.
[[nodiscard]] bool shares_caches(const sched::PolicyConfig& policy, const load::WorkloadSpec& workload);

/// Returns whether the queue of a deployment that carries at most `most` grows without end under `load`. If requests
/// may be shed, the deployment may count as stable although it sheds some.
[[nodiscard]] bool is_beyond(const PointSpec& spec, double load, double most);

/// Judges a run by the bound, if the bound is exact for a pool: beyond its rate a queue grows without end, even if so
/// slowly that no run shows it. Changes nothing if the bound allows the load.
void deny_beyond_rate(const load::Scenario& scenario, sched::SteadyState& steady);

class RateBound {
 public:
  /// Returns the bound in the unit of the load (load_value). nullopt if none is known: for closed loops, bursts and
  /// scripts, for shared prefixes stated by the workload, and for fleets that come and go.
  [[nodiscard]] std::optional<double> most(const load::Scenario& scenario);
  [[nodiscard]] std::optional<double> most(const PointSpec& spec);
  /// Returns how many replicas the pools of a point need at its load; nullopt if it has one pool, or if no bound is
  /// known.
  [[nodiscard]] std::optional<PoolNeed> need(const load::Scenario& scenario);
  [[nodiscard]] std::optional<PoolNeed> need(const PointSpec& spec);

 private:
  using Key = std::tuple<const void*, const void*, const void*, const void*, int, int, int, int, int, int, std::int64_t,
                         std::int64_t>;
  /// Lower bounds on the seconds that a replica spends per request.
  struct PoolServices {
    double prompt = 0;  // of a prefill replica
    double answer = 0;  // of a decode replica
    double both = 0;    // of a decode replica that also computes the prompt
    double rate = 0;    // requests/s at load 1
    double prefill_margin = 1, decode_margin = 1;
  };
  [[nodiscard]] double least_service(const load::Scenario& scenario);
  [[nodiscard]] double full_batch(const load::Scenario& scenario, const RequestWork& work, double rows, bool shares);
  [[nodiscard]] std::optional<PoolServices> services_of(const load::Scenario& decode);
  [[nodiscard]] std::optional<double> most_of_pools(const load::Scenario& decode);

  std::map<Key, double> services_;  // least seconds per request and replica
};

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// Derives what the simulator needs from a study: memory, KV blocks, instances and cost of one point. Also states why a
// point is impossible or cannot be simulated, and whether it lies within the runs that its engine was fitted to.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "load/scenario.h"
#include "model/engine_profile.h"
#include "model/error.h"
#include "model/memory_plan.h"
#include "study/file/study.h"
#include "study/run/point_result.h"

namespace plimsoll::study {

/// Why a point is impossible: an impossible TP degree, a model that does not fit, or contradictory limits.
struct Impossible {
  Where where;
  std::string reason;
};

/// `result` is complete except for metrics. Exactly one of `scenario` and `impossible` is set.
struct ResolvedPoint {
  PointResult result;
  std::optional<load::Scenario> scenario;
  std::optional<Impossible> impossible;
  Where workload;  // place of the workload in the study

  /// Throws InputError with the reason if the point is impossible.
  void require_possible() const {
    if (impossible) throw InputError(impossible->where, impossible->reason);
  }
};

/// The purpose of resolving a point. A measured point may have a type that the stated accelerator does not support,
/// because it runs on other hardware.
enum class ResolveFor : unsigned char { simulation, measurement };

/// Resolves a point. `spec` need not come from a file: `plan` and the GUI vary points.
[[nodiscard]] ResolvedPoint resolve_spec(PointSpec spec, ResolveFor use = ResolveFor::simulation);
[[nodiscard]] ResolvedPoint resolve_point(const Study& study, std::size_t index,
                                          ResolveFor use = ResolveFor::simulation);

/// Returns the settings for replicas that come and go.
[[nodiscard]] load::LifeConfig life_of(const PointSpec& spec);

/// Puts the prefill pool of `spec` in front of a point that has been resolved for its decode pool. If the two pools are
/// incompatible, sets the reason.
void add_prefill_pool(ResolvedPoint& point, const PointSpec& spec, ResolveFor use);

/// Returns the memory of one GPU of a point, as `plimsoll memory` prints it. kv_blocks includes the study's own
/// overrides.
[[nodiscard]] model::MemoryPlan point_memory(const PointSpec& spec);
/// Returns the longest sequence: max_total, else the model's context.
[[nodiscard]] std::int64_t longest_sequence(const PointSpec& spec);
/// Returns the longest sequence that the workload sends if its lengths are bounded; else approximately the mean.
[[nodiscard]] std::int64_t longest_sent(const load::WorkloadSpec& workload);

/// Throws InputError if requests are turns that follow answers, which no measured run sends.
void refuse_turns(const PointSpec& spec);

// Detects in advance runs that would not end or would not fit into memory.

/// Returns why the point's workload cannot be simulated; nullopt if it can.
[[nodiscard]] std::optional<Impossible> workload_problem(const PointSpec& spec);

// Tells whether a point lies within the range of the runs that its engine's profile was fitted to.

struct Extrapolation {
  std::string reason;  // empty: the point lies within them
  std::set<model::Beyond> kinds;
};

/// Returns in what ways a point lies outside those runs. The two 16-bit types count as equal. The batch sizes of open
/// loops are known only after the run (sim/simulate.cpp). Engines of constant cost never extrapolate.
[[nodiscard]] Extrapolation extrapolation_of(const PointSpec& spec);

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// From what a study says to what the simulator needs: memory, KV blocks, instances and cost of one point; why a point
// cannot exist or be simulated; and whether it lies within the runs that its engine was fitted to.
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

/// Why a point cannot exist: an impossible TP degree, a model that does not fit, limits that contradict each other.
struct Impossible {
  Where where;
  std::string reason;
};

/// `result` has everything but metrics. Either `scenario` or `impossible` is there.
struct ResolvedPoint {
  PointResult result;
  std::optional<load::Scenario> scenario;
  std::optional<Impossible> impossible;
  Where workload;  // its place in the study

  /// Throws InputError with the reason for a point that cannot exist.
  void require_possible() const {
    if (impossible) throw InputError(impossible->where, impossible->reason);
  }
};

/// What a point is resolved for. A measured point may have a type that the stated accelerator does not compute, since
/// it runs on other hardware.
enum class ResolveFor : unsigned char { simulation, measurement };

/// `spec` of any origin: `plan` and the GUI vary one without a file.
[[nodiscard]] ResolvedPoint resolve_spec(PointSpec spec, ResolveFor use = ResolveFor::simulation);
[[nodiscard]] ResolvedPoint resolve_point(const Study& study, std::size_t index,
                                          ResolveFor use = ResolveFor::simulation);

/// The memory of one GPU of a point, as `plimsoll memory` prints it; `kv_blocks` after the study's own overrides.
[[nodiscard]] model::MemoryPlan point_memory(const PointSpec& spec);
/// The longest sequence: max_total, else the model's context.
[[nodiscard]] std::int64_t longest_sequence(const PointSpec& spec);
/// The longest sequence that the workload sends, where that is bounded; else about the mean.
[[nodiscard]] std::int64_t longest_sent(const load::WorkloadSpec& workload);

// Runs that would not end, or not fit into memory: said before they start.

/// Why the point's workload cannot be simulated; nothing where it can.
[[nodiscard]] std::optional<Impossible> workload_problem(const PointSpec& spec);

// Whether a point lies within the runs that its engine's profile was fitted on, and in which ways it does not.

struct Extrapolation {
  std::string reason;  // empty: it lies within them
  std::set<model::Beyond> kinds;
};

/// A 16-bit type is as good as the other. Open loops say only when they run how large their batches become
/// (sim/simulate.cpp). Engines of constant cost extrapolate nothing.
[[nodiscard]] Extrapolation extrapolation_of(const PointSpec& spec);

}  // namespace plimsoll::study

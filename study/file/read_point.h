// SPDX-License-Identifier: Apache-2.0
// Readers of a point's study file and of its sections. They look names up in the catalogue and check values, but derive
// nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "configs/yaml_document.h"
#include "load/fleet_life.h"
#include "sched/autoscaler.h"
#include "study/file/section.h"
#include "study/file/study.h"
#include "study/file/trace_store.h"

namespace plimsoll::study {

inline constexpr std::int32_t kMaxReplicas = 100'000;
inline constexpr std::int32_t kMaxDegree = 4096;  // GPUs of a machine, ranks of a replica

// Reads one point's file. Names are looked up in the catalogue and values are checked; nothing is derived.

/// All top-level keys of a study file.
[[nodiscard]] std::span<const std::string_view> study_keys();

/// Reads and checks one point. Throws InputError with file:line:column.
[[nodiscard]] PointSpec read_point(const configs::Node& root, const configs::Catalogue& catalogue, TraceStore& traces);

// Reads the pools of a study (docs/pools.md). Each pool is read as a study of its own: the file, in which the pool's
// keys replace those of the file.

/// Returns whether the study states pools for prefill and decode; `pools: none` states one pool.
[[nodiscard]] bool has_pools(const configs::Node& root);
/// Returns the study of one pool: "prefill" or "decode".
[[nodiscard]] configs::Node pool_study(const configs::Node& root, std::string_view pool,
                                       const configs::Catalogue& catalogue);
/// Fills `spec`, which has been read from the study of the decode pool, with the transfer and the local prefills.
void read_handover(const configs::Node& root, PointSpec& spec);
/// Names in the notes of `decode` the pool in which priorities have no effect, if they have one in the other.
void note_priorities(PointSpec& decode, const PointSpec& prefill);
/// Throws InputError if the search has keys for pools and the study has none, or the other way round.
void check_pool_search(const configs::Node& root, const PointSpec& spec);
/// Throws InputError, at the pools, if a point of the study has pools. For a `verb` that cannot handle them.
void refuse_pools(const Study& study, std::string_view verb);

// Reads the hardware of a study file and its prices.

/// Fills the hardware of `spec`, which has its engine. How many ranks share this machine is not known yet.
void read_hardware(const Section& study, const configs::Catalogue& catalogue, PointSpec& spec);
/// Fills what depends on the number of ranks that share this machine. `spec` has its deployment and its types.
/// `others`: ranks of another pool on the same machine.
void settle_this_machine(PointSpec& spec, std::int64_t others = 0);
/// Settles two pools again if they share this machine.
void settle_shared_machine(PointSpec& decode, PointSpec& prefill);

// Reads the workload of a study file.

/// The note for a workload whose priorities the scheduler does not use.
inline constexpr std::string_view kPrioritiesUnused =
    "priorities have no effect: state scheduler.scheduling: priority (policy vllm_v1)";
/// Fills `spec` with the workload, the warm-up and related fields.
void read_workload(const configs::Node& node, Seconds script_step, TraceStore& traces, PointSpec& spec);

/// Returns the field of a load that `workload.concurrency` or `workload.rate` sets; empty if none.
[[nodiscard]] std::string load_field(std::string_view kind, std::string_view shortcut);

/// Reads a number of tokens, or one distribution of them.
[[nodiscard]] load::LengthMarginal read_length(const configs::Node& node);
/// Reads a load's `rate`, in events per second, or its `concurrency`. Throws InputError if the key is missing.
[[nodiscard]] double read_rate(const Section& load);
[[nodiscard]] std::int32_t read_concurrency(const Section& load);
/// Reads a load of sessions into the workload's load and lengths; `kind` is the key that holds it.
void read_sessions(const configs::Node& node, std::string_view kind, PointSpec& spec);

// Reads a study's client limits, its SLO and the search space of `plan`.

[[nodiscard]] load::ClientLimits read_limits(const configs::Node& node);
[[nodiscard]] sched::Slo read_slo(const configs::Node& node);
[[nodiscard]] SearchSpec read_search(const configs::Node& node);

// Reads deployment.autoscaling and deployment.failures: replicas that come and go (docs/study-file.md).

[[nodiscard]] sched::AutoscalingConfig read_autoscaling(const configs::Node& node);
[[nodiscard]] load::FailureConfig read_failures(const configs::Node& node);

/// Returns the id of the profile whose runs were used for the fit of the point's engine.
[[nodiscard]] const std::string& fitted_engine(const PointSpec& spec);

/// Returns the largest length that can be drawn; nullopt if there is no limit.
[[nodiscard]] std::optional<std::int64_t> largest_length(const load::LengthMarginal& lengths);

}  // namespace plimsoll::study

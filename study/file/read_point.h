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

// Reads one point's file: names are looked up in the catalogue, values checked, nothing derived.

/// All top-level keys of a study file.
[[nodiscard]] std::span<const std::string_view> study_keys();

/// Reads and checks one point. Throws InputError with file:line:column.
[[nodiscard]] PointSpec read_point(const configs::Node& root, const configs::Catalogue& catalogue, TraceStore& traces);

// Reads the workload of a study file.

/// Fills `spec` with the workload, the warm-up and related fields.
void read_workload(const configs::Node& node, Seconds script_step, TraceStore& traces, PointSpec& spec);

/// Returns the field of a load that `workload.concurrency` or `workload.rate` sets; empty if none.
[[nodiscard]] std::string load_field(std::string_view kind, std::string_view shortcut);

// Reads a study's client limits, its SLO and the search space of `plan`.

[[nodiscard]] load::ClientLimits read_limits(const configs::Node& node);
[[nodiscard]] sched::Slo read_slo(const configs::Node& node);
[[nodiscard]] SearchSpec read_search(const configs::Node& node);

// Reads deployment.autoscaling and deployment.failures: replicas that come and go (docs/study-file.md).

[[nodiscard]] sched::AutoscalingConfig read_autoscaling(const configs::Node& node);
[[nodiscard]] load::FailureConfig read_failures(const configs::Node& node);

}  // namespace plimsoll::study

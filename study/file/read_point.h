// SPDX-License-Identifier: Apache-2.0
// Readers of a study file's point and of its sections. They look names up in the catalogue and check values; they
// derive nothing.
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

// One point's file: names looked up in the catalogue, values checked, nothing derived yet.

/// The keys of a study file.
[[nodiscard]] std::span<const std::string_view> study_keys();

[[nodiscard]] PointSpec read_point(const configs::Node& root, const configs::Catalogue& catalogue, TraceStore& traces);

// The workload of a study file.

/// Fills workload, warm-up and related fields.
void read_workload(const configs::Node& node, Seconds script_step, TraceStore& traces, PointSpec& spec);

/// The field of a load that `workload.concurrency` or `workload.rate` sets; empty: none.
[[nodiscard]] std::string load_field(std::string_view kind, std::string_view shortcut);

// Reads a study's client limits, SLO and the search space of `plan`.

[[nodiscard]] load::ClientLimits read_limits(const configs::Node& node);
[[nodiscard]] sched::Slo read_slo(const configs::Node& node);
[[nodiscard]] SearchSpec read_search(const configs::Node& node);

// Replicas that come and go: deployment.autoscaling and deployment.failures of a study (docs/study-file.md).

[[nodiscard]] sched::AutoscalingConfig read_autoscaling(const configs::Node& node);
[[nodiscard]] load::FailureConfig read_failures(const configs::Node& node);

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// The workload of a study file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "study/file/section.h"
#include "study/file/study.h"
#include "study/file/trace_store.h"

namespace plimsoll::study {

/// Fills workload, warm-up and related fields.
void read_workload(const configs::Node& node, Seconds script_step, TraceStore& traces, PointSpec& spec);

/// The field of a load that `workload.concurrency` or `workload.rate` sets; empty: none.
[[nodiscard]] std::string load_field(std::string_view kind, std::string_view shortcut);

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// Reads a study's client limits, SLO and the search space of `plan`.
#pragma once

#include "study/file/section.h"
#include "study/file/study.h"

namespace plimsoll::study {

[[nodiscard]] load::ClientLimits read_limits(const configs::Node& node);
[[nodiscard]] sched::Slo read_slo(const configs::Node& node);
[[nodiscard]] SearchSpec read_search(const configs::Node& node);

}  // namespace plimsoll::study

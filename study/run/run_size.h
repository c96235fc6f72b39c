// SPDX-License-Identifier: Apache-2.0
// Runs that would not end, or not fit into memory: said before they start.
#pragma once

#include <optional>

#include "study/run/resolve.h"

namespace plimsoll::study {

/// Why the point's workload cannot be simulated; nothing where it can.
[[nodiscard]] std::optional<Impossible> workload_problem(const PointSpec& spec);

}  // namespace plimsoll::study

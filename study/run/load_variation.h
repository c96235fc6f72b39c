// SPDX-License-Identifier: Apache-2.0
// The same point at another load, to refine curves between the points of a study.
#pragma once

#include <optional>

#include "study/file/study.h"

namespace plimsoll::study {

/// Returns `spec` with another value of its load: clients (rounded, at least 1), requests/s, count or rate scale.
/// nullopt for a script, whose load has no value.
[[nodiscard]] std::optional<PointSpec> with_load_value(PointSpec spec, double value);

/// Returns the mean requests/s that an open loop offers; for a trace, its own rate times its scale. nullopt for loads
/// without a rate.
[[nodiscard]] std::optional<double> offered_rate(const load::LoadSpec& load);

}  // namespace plimsoll::study

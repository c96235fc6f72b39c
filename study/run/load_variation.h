// SPDX-License-Identifier: Apache-2.0
// The same point at another load, for curves that are refined between the points of a study.
#pragma once

#include <optional>

#include "study/file/study.h"

namespace plimsoll::study {

/// `spec` with another value of its load: clients (rounded, at least 1), requests/s, count or rate scale. nullopt for a
/// script, which has none.
[[nodiscard]] std::optional<PointSpec> with_load_value(PointSpec spec, double value);

/// Requests/s that an open loop offers in the mean: of a trace its own rate times its scale. Nothing for loads without
/// one.
[[nodiscard]] std::optional<double> offered_rate(const load::LoadSpec& load);

}  // namespace plimsoll::study

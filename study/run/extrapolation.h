// SPDX-License-Identifier: Apache-2.0
// Whether a point lies within the runs that its engine's profile was fitted on, and in which ways it does not.
#pragma once

#include <set>
#include <string>

#include "model/engine_profile.h"
#include "study/file/study.h"

namespace plimsoll::study {

struct Extrapolation {
  std::string reason;  // empty: it lies within them
  std::set<model::Beyond> kinds;
};

/// A 16-bit type is as good as the other. Open loops say only when they run how large their batches become
/// (sim/simulate.cpp). Engines of constant cost extrapolate nothing.
[[nodiscard]] Extrapolation extrapolation_of(const PointSpec& spec);

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// What an engine's profile was fitted on, from the runs themselves: `calibrated_for` of its file.
#pragma once

#include <string>
#include <vector>

#include "study/file/study.h"
#include "validation/measured_points.h"

namespace plimsoll::calibration {

/// A measured run and the point that it is simulated as.
struct FittedRun {
  const validation::MeasuredPoint* row = nullptr;
  const study::PointSpec* spec = nullptr;
};

/// As YAML: the versions that the runs name, and a group for each family of models and pair of types, with the smallest
/// and the largest of everything in it.
[[nodiscard]] std::string ranges_text(const std::vector<FittedRun>& runs);

}  // namespace plimsoll::calibration

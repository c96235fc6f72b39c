// SPDX-License-Identifier: Apache-2.0
// Describes the runs that an engine's profile was fitted to, for `calibrated_for` in its file.
#pragma once

#include <string>
#include <vector>

#include "study/file/study.h"
#include "validation/measured_points.h"

namespace plimsoll::calibration {

/// A measured run, and the point that simulates it.
struct FittedRun {
  const validation::MeasuredPoint* row = nullptr;
  const study::PointSpec* spec = nullptr;
};

/// Returns YAML: the versions that the runs name, and a group for each family of models and pair of types, with the
/// smallest and the largest value of every quantity.
[[nodiscard]] std::string ranges_text(const std::vector<FittedRun>& runs);

}  // namespace plimsoll::calibration

// SPDX-License-Identifier: Apache-2.0
// report.html of a study's points: the curves, the table, what was assumed and what is estimated.
#pragma once

#include <string>
#include <vector>

#include "study/file/study.h"
#include "study/run/point_result.h"

namespace plimsoll::study {

[[nodiscard]] std::string points_html(const Study& study, const std::vector<PointResult>& points);

/// What figures of a point rest on: the machine with its price, the engine's profile and its fit, and `notes`, those of
/// the study.
[[nodiscard]] std::vector<std::string> assumptions_of(const PointSpec& spec, const std::vector<std::string>& notes);

}  // namespace plimsoll::study

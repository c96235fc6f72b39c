// SPDX-License-Identifier: Apache-2.0
// The curves of a study's points: the metrics that its SLO limits, or latency, over load or another swept number.
#pragma once

#include <string>
#include <vector>

#include "study/output/svg_chart.h"
#include "study/run/point_result.h"

namespace plimsoll::study {

/// The first picture is the one to show where there is room for one. A series for each choice of the other swept
/// values; against output tokens/s in closed loops, against the offered load in open ones, else against the swept key
/// with the most numbers. Empty where no swept key has two numbers.
[[nodiscard]] std::vector<Chart> points_charts(const std::string& title, const std::vector<std::string>& swept_keys,
                                               const std::vector<PointResult>& points);

}  // namespace plimsoll::study

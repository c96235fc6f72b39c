// SPDX-License-Identifier: Apache-2.0
// report.html for the points of a study: the curves, the table, the assumptions and the estimates.
#pragma once

#include <string>
#include <vector>

#include "study/file/study.h"
#include "study/output/chart.h"
#include "study/run/point_result.h"

namespace plimsoll::study {

[[nodiscard]] std::string points_html(const Study& study, const std::vector<PointResult>& points);

/// Returns the assumptions behind a point's figures: the machine with its price, the engine's profile and its fit, and
/// `notes`, which are those of the study.
[[nodiscard]] std::vector<std::string> assumptions_of(const PointSpec& spec, const std::vector<std::string>& notes);

// Charts of a study's points: the metrics that its SLO limits, or latency, over load or another swept number.

/// Returns the charts, the most important one first. There is one series for each combination of the other swept
/// values. The x axis is output tokens/s in closed loops and the offered load in open ones; otherwise it is the swept
/// key with the most numbers. Empty if no swept key has two numbers.
[[nodiscard]] std::vector<Chart> points_charts(const std::string& title, const std::vector<std::string>& swept_keys,
                                               const std::vector<PointResult>& points);

}  // namespace plimsoll::study

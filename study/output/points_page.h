// SPDX-License-Identifier: Apache-2.0
// report.html of a study's points: the curves, the table, what was assumed and what is estimated.
#pragma once

#include <string>
#include <vector>

#include "study/file/study.h"
#include "study/output/chart.h"
#include "study/run/point_result.h"

namespace plimsoll::study {

[[nodiscard]] std::string points_html(const Study& study, const std::vector<PointResult>& points);

/// What figures of a point rest on: the machine with its price, the engine's profile and its fit, and `notes`, those of
/// the study.
[[nodiscard]] std::vector<std::string> assumptions_of(const PointSpec& spec, const std::vector<std::string>& notes);

// The curves of a study's points: the metrics that its SLO limits, or latency, over load or another swept number.

/// The first picture is the one to show where there is room for one. A series for each choice of the other swept
/// values; against output tokens/s in closed loops, against the offered load in open ones, else against the swept key
/// with the most numbers. Empty where no swept key has two numbers.
[[nodiscard]] std::vector<Chart> points_charts(const std::string& title, const std::vector<std::string>& swept_keys,
                                               const std::vector<PointResult>& points);

}  // namespace plimsoll::study

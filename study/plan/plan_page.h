// SPDX-License-Identifier: Apache-2.0
// An answer as a page with pictures: report.html of plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "study/output/svg_chart.h"
#include "study/plan/view.h"

namespace plimsoll::study::plan {

/// The winner under more and more load: what the SLO limits, or the latency, and the throughput. Empty without a
/// winner.
[[nodiscard]] std::vector<Chart> winner_charts(const Finding& finding);
/// Every question with its answer, its winner's curves, all deployments and what the figures rest on.
[[nodiscard]] std::string findings_html(const Study& study, std::span<const Finding> findings);

}  // namespace plimsoll::study::plan

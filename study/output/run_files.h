// SPDX-License-Identifier: Apache-2.0
// The texts of the files that one simulated point leaves behind: its requests, its timeline and, if replicas come and
// go, its fleet.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate.h"
#include "study/run/point_result.h"

namespace plimsoll::study {

/// requests.csv: one row a logical request, times in seconds from the start of the run.
[[nodiscard]] std::string requests_csv(const std::vector<sim::RequestRow>& requests);

/// timeline.json, a Chrome trace that opens in Perfetto: a thread of steps for each replica, and counters of its KV
/// blocks, running rows and queue. A leap is one slice; `args.steps` says how many steps it holds.
[[nodiscard]] std::string timeline_json(const std::vector<sim::StepRow>& steps, const std::string& title);

/// "decisions.txt", or "decisions-POINT-rREPLICA.txt" where there are several points or replicas; both count from 0.
[[nodiscard]] std::string decisions_file_name(std::size_t points, std::size_t point, std::size_t replicas,
                                              std::size_t replica);
/// "requests.csv", or "requests-POINT.csv" where there are several points.
[[nodiscard]] std::string point_file_name(const std::string& stem, const std::string& extension, std::size_t points,
                                          std::size_t point);

// A fleet whose replicas come and go, over the time of its run: how many replicas there were, the instance hours and
// the cost. As a file, as pictures and as a table for the terminal.

/// fleet.csv: a row for each change, from the start of the run; hours and cost are those until the row's time, the
/// warm-up included. `usd` is blank without a price. Needs rows in `point.fleet`.
[[nodiscard]] std::string fleet_csv(const PointResult& point);
/// Replicas by state over time, as an SVG picture.
[[nodiscard]] std::string fleet_svg(const std::string& title, const PointResult& point);
/// The cost until each time, or the instance hours where no price is known, as an SVG picture.
[[nodiscard]] std::string fleet_cost_svg(const std::string& title, const PointResult& point);
/// Equal parts of the run, a line each: means of the replicas by state, instance hours and cost.
[[nodiscard]] std::string fleet_table(const PointResult& point);

}  // namespace plimsoll::study

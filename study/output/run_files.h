// SPDX-License-Identifier: Apache-2.0
// The contents of the files written for one simulated point: its requests, its timeline and, if replicas come and go,
// its fleet.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate.h"
#include "study/run/point_result.h"

namespace plimsoll::study {

/// requests.csv: one row per logical request, times in seconds from the start of the run.
[[nodiscard]] std::string requests_csv(const std::vector<sim::RequestRow>& requests);

/// timeline.json, a Chrome trace for Perfetto: for each replica a thread of steps, and counters of KV blocks, running
/// rows and queued requests. A leap is one slice; `args.steps` is its number of steps.
[[nodiscard]] std::string timeline_json(const std::vector<sim::StepRow>& steps, const std::string& title);

/// "decisions.txt", or "decisions-POINT-rREPLICA.txt" if there are several points or replicas; both count from 0.
[[nodiscard]] std::string decisions_file_name(std::size_t points, std::size_t point, std::size_t replicas,
                                              std::size_t replica);
/// "requests.csv", or "requests-POINT.csv" if there are several points.
[[nodiscard]] std::string point_file_name(const std::string& stem, const std::string& extension, std::size_t points,
                                          std::size_t point);

// A fleet with replicas that come and go, over the time of its run: its replicas, instance hours and cost, as a file,
// as pictures and as a table for the terminal.

/// fleet.csv: one row per change, from the start of the run. Hours and cost are cumulative up to the row's time and
/// include the warm-up. `usd` is blank without a price. Requires rows in `point.fleet`.
[[nodiscard]] std::string fleet_csv(const PointResult& point);
/// Replicas by state over time, as an SVG picture.
[[nodiscard]] std::string fleet_svg(const std::string& title, const PointResult& point);
/// The cumulative cost over time, or the instance hours if no price is known, as an SVG picture.
[[nodiscard]] std::string fleet_cost_svg(const std::string& title, const PointResult& point);
/// A table with one line per equal time slice of the run: means of the replicas by state, instance hours and cost.
[[nodiscard]] std::string fleet_table(const PointResult& point);

}  // namespace plimsoll::study

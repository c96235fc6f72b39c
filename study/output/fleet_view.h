// SPDX-License-Identifier: Apache-2.0
// A fleet whose replicas come and go, over the time of its run: how many replicas there were, the instance hours and
// the cost. As a file, as pictures and as a table for the terminal.
#pragma once

#include <string>

#include "study/run/point_result.h"

namespace plimsoll::study {

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

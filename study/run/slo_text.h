// SPDX-License-Identifier: Apache-2.0
// The limits of a service level objective (SLO) as text, and where a point misses them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sched/metrics_collector.h"

namespace plimsoll::study {

/// Returns "482 ms", "19.1 s" or "12 /s"; "infinite" beyond capacity.
[[nodiscard]] std::string limit_text(double value, const std::string& unit);
/// One limit of an SLO, and the value that a run found for it.
struct SloFigure {
  std::string name, unit;                         // "p90 latency", "s"
  double limit = 0, value = 0;                    // value: infinite if nothing was measured
  bool at_least = false;                          // the limit is a minimum
  std::optional<sched::Slo::Metric> metric = {};  // the metric of a bound on a latency
};

/// Returns the figure's name for a heading, such as "p99 TPOT".
[[nodiscard]] std::string slo_heading(const SloFigure& figure);

/// Returns the limits in a fixed order. `beyond_capacity`: the queue of an open loop grows without end, so no request
/// is served in time.
[[nodiscard]] std::vector<SloFigure> slo_figures(const sched::Slo& slo, const sched::PointMetrics& metrics,
                                                 bool beyond_capacity);
/// Returns which limits are missed and by how much, e.g. "p90 latency 20.5 s of at most 10 s"; empty if all are kept.
[[nodiscard]] std::string missed_slo(const sched::Slo& slo, const sched::PointMetrics& metrics, bool beyond_capacity);

}  // namespace plimsoll::study

// SPDX-License-Identifier: Apache-2.0
// What a service level objective asks for and where a point misses it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sched/metrics_collector.h"

namespace plimsoll::study {

/// "482 ms", "19.1 s", "12 /s"; "infinite" beyond capacity.
[[nodiscard]] std::string limit_text(double value, const std::string& unit);
/// One limit of an SLO and what a run found for it.
struct SloFigure {
  std::string name, unit;                         // "p90 latency", "s"
  double limit = 0, value = 0;                    // value: infinite where nothing was measured
  bool at_least = false;                          // the limit is a minimum
  std::optional<sched::Slo::Metric> metric = {};  // of a bound on a latency
};

/// The figure's name for a heading: "p99 TPOT".
[[nodiscard]] std::string slo_heading(const SloFigure& figure);

/// In a fixed order. `beyond_capacity`: the queue of an open loop grows without end, so that nobody is served in time.
[[nodiscard]] std::vector<SloFigure> slo_figures(const sched::Slo& slo, const sched::PointMetrics& metrics,
                                                 bool beyond_capacity);
/// Which of them are missed and by what, e.g. "p90 latency 20.5 s of at most 10 s"; empty: all are kept.
[[nodiscard]] std::string missed_slo(const sched::Slo& slo, const sched::PointMetrics& metrics, bool beyond_capacity);

}  // namespace plimsoll::study

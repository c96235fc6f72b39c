// SPDX-License-Identifier: Apache-2.0
// What a service level objective asks for and where a point misses it, in words.
#pragma once

#include <string>

#include "sched/measurements.h"

namespace plimsoll::study {

/// "p90 latency", "mean ttft".
[[nodiscard]] std::string bound_name(const sched::Slo::Bound& bound);
/// "482 ms", "19.1 s", "12 /s"; "infinite" beyond capacity.
[[nodiscard]] std::string limit_text(double value, const std::string& unit);
/// Which bounds the point misses and by what, e.g. "p90 latency 20.5 s of at most 10 s"; empty: it keeps all of them.
[[nodiscard]] std::string missed_slo(const sched::Slo& slo, const sched::PointMetrics& metrics);

}  // namespace plimsoll::study

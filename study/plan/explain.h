// SPDX-License-Identifier: Apache-2.0
// In words: what limits a candidate, and by how much it loses.
#pragma once

#include <string>

#include "study/plan/answer.h"

namespace plimsoll::study::plan {

/// Fills the verdict of every entry.
void explain(const Question& question, Answer& answer);

/// "34 % more USD/h", "2 GPUs more": how the objective of one differs from the best's; empty where it does not.
[[nodiscard]] std::string objective_gap(const Question& question, const Entry& entry, const Entry& best);

/// "52 % waiting", "61 % host time": the largest part of a request's latency; empty where nothing was measured.
[[nodiscard]] std::string largest_part(const sched::PointMetrics& metrics);

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
// Whether the answer would still be the answer if load, lengths or the time of a step were 10 % off.
#pragma once

#include <vector>

#include "study/plan/answer.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

/// Looks at the winner and those near it: the best ones that meet the SLO, and the losers that would beat it and do not
/// miss by much.
[[nodiscard]] std::vector<Sensitivity> sensitivities(const Question& question, Trials& trials, const Answer& answer);

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
// The search for the best deployment (docs/plan.md). Bounds exclude candidates that cannot meet the SLO, and one run
// each screens the rest. The best are run longer and repeatedly until their order is certain at the stated confidence.
// All candidates get the same requests (common random numbers), so differences between them are known more precisely
// than each value.
#pragma once

#include "study/plan/answer.h"
#include "study/plan/candidate.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

struct SearchOptions {
  bool examine_winner = true;   // also find its curve, capacity and sensitivity
  bool fewest_on_each = false;  // also the deployment with the fewest GPUs on each instance type
};

/// Returns the best deployment, independent of the number of jobs. A cancelled search returns what it knows so far.
[[nodiscard]] Answer find_best(const Question& question, Trials& trials, const SearchOptions& options = {});

}  // namespace plimsoll::study::plan

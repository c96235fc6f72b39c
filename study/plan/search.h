// SPDX-License-Identifier: Apache-2.0
// The search for the best deployment (docs/plan.md): bounds exclude what cannot meet the SLO, one run each screens the
// rest, and the front-runners are run longer and again until their order is certain at the stated confidence. All
// candidates meet the same requests (common random numbers), so differences between them are known better than each.
#pragma once

#include "study/plan/answer.h"
#include "study/plan/candidate.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

struct SearchOptions {
  bool examine_winner = true;   // its curve, capacity and sensitivity
  bool fewest_on_each = false;  // also the deployment with the fewest GPUs on each instance type
};

/// The same answer whatever the number of jobs. A cancelled search answers with what it knows.
[[nodiscard]] Answer find_best(const Question& question, Trials& trials, const SearchOptions& options = {});

}  // namespace plimsoll::study::plan

// SPDX-License-Identifier: Apache-2.0
// The search for the best deployment (docs/plan.md). Bounds exclude candidates that cannot meet the SLO, and one run
// each screens the rest. The best are run longer and repeatedly until their order is certain at the stated confidence.
// All candidates get the same requests (common random numbers), so differences between them are known more precisely
// than each value.
#pragma once

#include <cstddef>
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

/// Finds the one-pool deployment that carries most on as many GPUs as the winner's replicas use, and the one that
/// carries most for as much money as the winner's instances cost. Both have the study's own scheduler; the search
/// chooses the TP degree. If nothing limits the load, the lowest latency decides. `trials` are those of the search.
/// Throws Cancelled.
[[nodiscard]] PoolFindings compare_with_one_pool(const Question& question, const Trials& trials, std::size_t winner);

}  // namespace plimsoll::study::plan

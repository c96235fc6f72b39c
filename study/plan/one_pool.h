// SPDX-License-Identifier: Apache-2.0
// Compares a winner with pools for prefill and decode with one pool, in which every replica does both.
#pragma once

#include <cstddef>

#include "study/plan/answer.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

/// Finds the one-pool deployment that carries most on as many GPUs as the winner's replicas use, and the one that
/// carries most for as much money as the winner's instances cost. Both have the study's own scheduler; the search
/// chooses the TP degree. If nothing limits the load, the lowest latency decides. `trials` are those of the search.
/// Throws Cancelled.
[[nodiscard]] PoolFindings compare_with_one_pool(const Question& question, const Trials& trials, std::size_t winner);

}  // namespace plimsoll::study::plan

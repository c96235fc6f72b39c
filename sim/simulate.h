// SPDX-License-Identifier: Apache-2.0
// Simulates a scenario: one point of the latency-throughput curve.
#pragma once

#include "load/scenario.h"
#include "sched/run_result.h"

namespace plimsoll::sim {

using sched::RequestRow;
using sched::RunOptions;
using sched::RunResult;
using sched::StepRow;

/// Deterministic: the same scenario gives the same result, bit for bit. Any number of threads may run scenarios at
/// once.
[[nodiscard]] RunResult simulate(const load::Scenario& scenario, const RunOptions& options = {});

}  // namespace plimsoll::sim

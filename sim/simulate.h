// SPDX-License-Identifier: Apache-2.0
// Simulates a scenario: one point of the latency-throughput curve.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "load/scenario.h"
#include "sched/run_result.h"

namespace plimsoll::sim {

using sched::RequestRow;
using sched::RunOptions;
using sched::RunResult;
using sched::StepRow;

/// Runs the scenario. Deterministic: the same scenario gives the same result, bit for bit. Thread-safe: several threads
/// may run scenarios at once.
[[nodiscard]] RunResult simulate(const load::Scenario& scenario, const RunOptions& options = {});

// Feeds the events of a live run (events.jsonl, docs/measure.md) to new replicas, which must make the same decisions
// with the same policy and settings.

/// Returns the index of the study's point that the file was recorded from. Throws InputError with file and line.
[[nodiscard]] std::size_t replayed_point(const std::string& file);

/// Returns the decision log of each replica. The size of the KV pool comes from the file and not from `scenario`, so
/// that a run can be replayed on a machine with less memory. Throws InputError with file and line if the file is
/// damaged or records a run of another policy or number of replicas.
[[nodiscard]] std::vector<std::string> replay(const std::string& file, const load::Scenario& scenario);

}  // namespace plimsoll::sim

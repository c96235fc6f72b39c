// SPDX-License-Identifier: Apache-2.0
// ops.csv (docs/measure.md): every op of a traced run with its measured and its predicted time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exec/engine.h"
#include "load/scenario.h"

namespace plimsoll::cli {

/// Op times of one replica's engine, in order.
struct ReplicaTraces {
  std::int32_t first_rank = 0;  // ranks are numbered across all replicas
  std::vector<exec::OpTrace> ops;
};

/// Predicts times with the scenario's accelerator and engine. Steps count from 1.
[[nodiscard]] std::string ops_csv(std::span<const ReplicaTraces> replicas, const load::Scenario& scenario);

}  // namespace plimsoll::cli

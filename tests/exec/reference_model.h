// SPDX-License-Identifier: Apache-2.0
// A transformer as the papers define it: one sequence, no cache, no batching, no ranks, f64 with Eigen. The executor's
// results are compared with it.
#pragma once

#include <Eigen/Dense>

#include <cstdint>
#include <span>

#include "exec/weights/weights.h"

namespace plimsoll::exec {

/// Returns the logits [tokens, vocabulary] of every position.
[[nodiscard]] Eigen::MatrixXd reference_logits(const model::Architecture& architecture, const WeightSource& weights,
                                               std::span<const std::int32_t> tokens);

}  // namespace plimsoll::exec

// SPDX-License-Identifier: Apache-2.0
// A transformer as defined in the papers: one sequence, no cache, no batching, no ranks, f64 with Eigen. The executor's
// results are compared with it.
#pragma once

#include <Eigen/Dense>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/weights/weights.h"
#include "model/architecture.h"

namespace plimsoll::exec {

/// Returns the logits [tokens, vocabulary] of every position.
[[nodiscard]] Eigen::MatrixXd reference_logits(const model::Architecture& architecture, const WeightSource& weights,
                                               std::span<const std::int32_t> tokens);

/// Expects the most likely tokens after each prompt, by the logits of the reference.
void expect_greedy(const model::Architecture& architecture, const WeightSource& weights,
                   const std::vector<std::vector<std::int32_t>>& prompts,
                   const std::vector<std::vector<std::int32_t>>& decoded);

// Tiny architectures, one of every family that the executor runs, with ragged widths.

/// A name of tiny_families().
[[nodiscard]] model::Architecture tiny_model(const std::string& family);
[[nodiscard]] std::vector<std::string> tiny_families();
/// Returns those that the executor runs on GPUs.
[[nodiscard]] std::vector<std::string> tiny_gpu_families();

}  // namespace plimsoll::exec

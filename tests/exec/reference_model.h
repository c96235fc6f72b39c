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

// Tiny architectures, one of every family that the executor runs, with ragged widths.

/// llama, llama3, mistral, qwen2, qwen3, falcon_mqa, falcon_groups, gptj, opt, mixtral.
[[nodiscard]] model::Architecture tiny_model(const std::string& family);
[[nodiscard]] std::vector<std::string> tiny_families();

}  // namespace plimsoll::exec
